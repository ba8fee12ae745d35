// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/drivertest"
	"github.com/fencelock/fencelock/redisstore"
	"github.com/fencelock/fencelock/redisstore/internal/redistest"
)

// quorumNode is a server and a way to it, for one case after the other.
type quorumNode struct {
	lib    library
	opts   redisstore.Options
	server *redistest.Server
	login  login
	open   []*client
}

// spaces makes every case work in a namespace of its own, so that cases that
// lose the memory or wait for a grace do not disturb the next.
var spaces atomic.Int64

// harness returns a harness for one case; close what it opened with done.
func (r *quorumNode) harness() *drivertest.Harness {
	opts := r.opts
	if !opts.Grace && opts.Namespace == "" { // with grace a fresh one would cost a MaxTTL each time
		opts.Namespace = fmt.Sprintf("space%d", spaces.Add(1))
	}
	return &drivertest.Harness{
		Open: func() (driver.Store, error) {
			c, err := r.lib.dial(r.login, &opts)
			if err != nil {
				return nil, err
			}
			r.open = append(r.open, c)
			return c.Store, nil
		},
		TTL:     600 * time.Millisecond,
		Slack:   200 * time.Millisecond, // many servers share few processors here
		Soon:    5 * time.Second,
		Forget:  func() error { return r.server.Do("FLUSHALL").Err() },
		Restart: func() error { return r.back(r.server.Reboot()) },
		Checkpoint: func() func() error {
			rewind, err := r.server.Checkpoint()
			if err != nil {
				return func() error { return err }
			}
			return func() error { return r.back(rewind()) }
		},
		Sever: r.server.Stop,
	}
}

// back makes every client notice that its connections are broken. That the first
// call after a restart may fail is so, and known to the core; the cases are about
// what comes after.
func (r *quorumNode) back(err error) error {
	for _, c := range r.open {
		for tries := 0; err == nil && c.ping(context.Background()) != nil; tries++ {
			if tries == 100 {
				err = fmt.Errorf("%s does not find the server again", r.lib.name)
			}
		}
	}
	return err
}

func (r *quorumNode) done() {
	for _, c := range r.open {
		c.close()
	}
	r.open = nil
}
