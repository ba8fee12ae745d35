// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/bench/internal/child"
)

// Memcached is a running memcached, as it comes.
type Memcached struct {
	*servers.MemcachedServer
	process
	uncounted
}

// StartMemcached starts a server. The caller stops it.
func StartMemcached(context.Context) (Server, error) {
	s, err := servers.Memcached()
	if err != nil {
		return nil, err
	}
	if err := child.Move(s.PID()); err != nil {
		s.Stop()
		return nil, err
	}
	return &Memcached{MemcachedServer: s, process: process(s.PID())}, nil
}

// Addr implements Server.
func (m *Memcached) Addr() string { return m.MemcachedServer.Addr }

// Version implements Server.
func (m *Memcached) Version(context.Context) (string, error) {
	v, err := m.MemcachedServer.Version()
	return "memcached " + v, err
}

// Stats implements Server: what it counts is not read.
func (m *Memcached) Stats(context.Context) (Stats, error) { return nil, nil }
