// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/bench/internal/child"
)

// Memcached is a running memcached, as it comes.
type Memcached struct{ *servers.MemcachedServer }

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
	return &Memcached{s}, nil
}

// Addr implements Server.
func (m *Memcached) Addr() string { return m.MemcachedServer.Addr }

// Version implements Server.
func (m *Memcached) Version(context.Context) (string, error) {
	v, err := m.MemcachedServer.Version()
	return "memcached " + v, err
}

// ResetStats implements Server: what it counts is not read.
func (m *Memcached) ResetStats(context.Context) error { return nil }

// Stats implements Server: what it counts is not read.
func (m *Memcached) Stats(context.Context) (Stats, error) { return nil, nil }

// CPU implements Server. Only Linux reports it.
func (m *Memcached) CPU(context.Context) (float64, error) { return processCPU(m.PID()) }

// Memory implements Server: what is in memory. Only Linux reports it.
func (m *Memcached) Memory(context.Context) (float64, error) {
	return processMemory(m.PID())
}
