// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
)

// Sentinels is a running master with two replicas, watched by three sentinels.
type Sentinels struct {
	*servers.Sentinels
	t testing.TB
}

// StartSentinels starts a master, two replicas and three sentinels that end with the test.
// A replica takes over when the master has been silent for as long as down.
func (f Flavor) StartSentinels(t testing.TB, down time.Duration) *Sentinels {
	t.Helper()
	s := &Sentinels{t: t, Sentinels: servers.Test(t, func() (*servers.Sentinels, error) { return servers.Flavor(f).StartSentinels(down) })}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Log())
		}
	})
	return s
}

// Master returns the server that all sentinels take for the master.
func (s *Sentinels) Master() *Server {
	s.t.Helper()
	master, err := s.Sentinels.Master()
	must(s.t, err)
	return &Server{master, s.t}
}

// PauseReplication makes the replicas miss everything from now on; a sentinel
// still promotes one of them.
func (s *Sentinels) PauseReplication() { s.t.Helper(); must(s.t, s.Master().CutReplicas()) }

// KillMaster ends the master at once, as a crash does, and returns it.
func (s *Sentinels) KillMaster() *Server {
	s.t.Helper()
	m := s.Master()
	m.Kill()
	return m
}

// WaitPromoted returns when a server has taken over from old.
func (s *Sentinels) WaitPromoted(old *Server) {
	s.t.Helper()
	_, err := s.AwaitPromoted(old.RedisServer)
	must(s.t, err)
}

// Failover makes a replica take over while the master works.
func (s *Sentinels) Failover() { s.t.Helper(); must(s.t, s.Sentinels.Failover()) }
