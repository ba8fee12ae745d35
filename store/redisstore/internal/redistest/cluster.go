// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
)

// node is a server of a cluster.
type node = servers.RedisServer

// Cluster is a running cluster of three masters with a replica each.
type Cluster struct {
	*servers.RedisCluster
	t testing.TB
}

// StartCluster starts a cluster that ends with the test. A node that has been silent for
// as long as down is taken for down. args are further arguments of the servers' command lines.
func (f Flavor) StartCluster(t testing.TB, down time.Duration, args ...string) *Cluster {
	t.Helper()
	return &Cluster{t: t, RedisCluster: servers.Test(t, func() (*servers.RedisCluster, error) { return servers.Flavor(f).StartCluster(down, args...) })}
}

// Find returns the slot and the master of the keys that match a pattern.
func (c *Cluster) Find(pattern string) (slot int, owner *node) {
	c.t.Helper()
	slot, owner, err := c.RedisCluster.Find(pattern)
	must(c.t, err)
	return slot, owner
}

// do sends a command to a node, which has to succeed.
func (c *Cluster) do(n *node, args ...any) { c.t.Helper(); must(c.t, n.Do(args...).Err()) }

// PauseReplication makes the replica of a master miss everything from now on; it
// still takes over.
func (c *Cluster) PauseReplication(master *node) {
	c.t.Helper()
	must(c.t, master.CutReplicas())
}

// Kill ends a master at once, as a crash does, and returns when its replica has taken
// over.
func (c *Cluster) Kill(master *node) {
	c.t.Helper()
	replica, err := c.ReplicaOf(master)
	must(c.t, err)
	master.Kill()
	must(c.t, c.AwaitMaster(replica))
}

// Failover makes the replica of a master take over while the master works.
func (c *Cluster) Failover(master *node) {
	c.t.Helper()
	_, err := c.RedisCluster.Failover(master)
	must(c.t, err)
}

// Stages of a move, in which servers redirect clients or make them try again.
const (
	// Begun: nothing has moved, and what is not there is answered with ASK.
	Begun = "begun"
	// Half: the key with the shortest name has moved, and there are others. Calls that need
	// both are rejected until all are on one server.
	Half = "half"
	// Moved: everything has moved, and the slot is still the old master's.
	Moved = "moved"
)

// MoveSlot moves a slot from its master to another and calls at, if not nil, at
// each stage.
func (c *Cluster) MoveSlot(slot int, from *node, at func(stage string)) (to *node) {
	c.t.Helper()
	if at == nil {
		at = func(string) {}
	}
	to = c.BeginMove(slot, from)
	at(Begun)
	c.FinishMove(slot, from, to, at)
	return to
}

// Masters returns the nodes that are masters.
func (c *Cluster) Masters() (masters []*node) {
	for _, n := range c.Nodes {
		if n.PID() != 0 && n.Info("replication", "role") == "master" {
			masters = append(masters, n)
		}
	}
	return masters
}

// BeginMove makes the master of a slot ready to move it to another, which it returns. Nothing has moved then.
func (c *Cluster) BeginMove(slot int, from *node) (to *node) {
	c.t.Helper()
	for _, n := range c.Masters() {
		if n != from {
			to = n
		}
	}
	c.do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.ID(from))
	c.do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.ID(to))
	return to
}

// AbortMove ends a move that has begun: the slot stays where it is.
func (c *Cluster) AbortMove(slot int, from, to *node) {
	c.t.Helper()
	c.do(from, "CLUSTER", "SETSLOT", slot, "STABLE")
	c.do(to, "CLUSTER", "SETSLOT", slot, "STABLE")
}

// FinishMove moves the keys of a slot for which a move has begun, then the slot, and calls at at the stages Half and Moved.
func (c *Cluster) FinishMove(slot int, from, to *node, at func(stage string)) {
	c.t.Helper()
	migrate := func(keys []any) {
		c.do(from, append([]any{"MIGRATE", "127.0.0.1", to.Port, "", 0, 5000, "KEYS"}, keys...)...)
	}
	if keys, err := from.Do("CLUSTER", "GETKEYSINSLOT", slot, 1000).Slice(); len(keys) > 1 {
		must(c.t, err)
		migrate([]any{slices.MinFunc(keys, func(a, b any) int { return len(a.(string)) - len(b.(string)) })})
		at(Half)
	}
	for {
		keys, err := from.Do("CLUSTER", "GETKEYSINSLOT", slot, 1000).Slice()
		must(c.t, err)
		if len(keys) == 0 {
			break
		}
		migrate(keys)
	}
	at(Moved)
	c.do(to, "CLUSTER", "SETSLOT", slot, "NODE", c.ID(to))
	for _, n := range c.Masters() {
		if n != to {
			c.do(n, "CLUSTER", "SETSLOT", slot, "NODE", c.ID(to))
		}
	}
}

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
