// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/server"
)

// memcached is one server. It has no tokens, no queue, and nothing that survives a restart;
// its items end on whole seconds.
var memcached = Deployment{Name: "memcached", Lock: "memcached", TTL: 2 * time.Second, Shape: fault.Shape{Servers: 1}, start: startMemcached,
	Lacks: map[fault.Verb]string{
		fault.CutPush:  "the server does not notify waiters; they poll",
		fault.Wipe:     "it never has its data after a restart: see server-kill",
		fault.Flush:    "it has nothing that a restart does not lose too: see server-kill",
		fault.Rollback: "it never has its data after a restart: see server-kill",
	}}

func startMemcached(time.Duration, fault.Wants) (*Rig, error) {
	s, err := servers.Memcached()
	if err != nil {
		return nil, err
	}
	return &Rig{Servers: []server.Server{server.Wrap(s.Server)}, Addrs: []string{s.Addr}}, nil
}
