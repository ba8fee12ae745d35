// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	masters = 3
	slots   = 16384
)

// Cluster is a running cluster of three masters with a replica each.
type Cluster struct {
	nodes []*Server // the first three were begun as masters
	ids   map[*Server]string
	t     testing.TB
}

// ClusterNode are the settings of a node of a cluster. Its second port is chosen too:
// by default it is ten thousand above the first, where somebody else may listen.
func ClusterNode(t testing.TB) []string {
	return []string{"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(freePort(t))}
}

// StartCluster starts six servers and joins them to a cluster. A node that has
// been silent for as long as down says is taken for down.
func (f Flavour) StartCluster(t testing.TB, down time.Duration) *Cluster {
	t.Helper()
	c := &Cluster{t: t, ids: map[*Server]string{}}
	for range 2 * masters {
		n := f.Start(t, replicated(append(ClusterNode(t), "--cluster-node-timeout", strconv.FormatInt(down.Milliseconds(), 10), "--cluster-config-file", "nodes.conf")...)...)
		c.nodes = append(c.nodes, n)
		c.ids[n] = n.must("CLUSTER", "MYID").Val().(string)
		n.must("CLUSTER", "SET-CONFIG-EPOCH", len(c.nodes))
		if len(c.nodes) > 1 {
			first := c.nodes[0]
			n.must("CLUSTER", "MEET", "127.0.0.1", first.Port, c.busOf(first))
		}
	}
	for i, n := range c.nodes[:masters] {
		n.must("CLUSTER", "ADDSLOTSRANGE", i*slots/masters, (i+1)*slots/masters-1)
	}
	c.all("knows all nodes", func(n *Server) bool { return n.clusterInfo("cluster_known_nodes") == strconv.Itoa(2*masters) })
	for i, n := range c.nodes[masters:] {
		until(t, n.Addr+" knows its master", func() bool {
			return n.Do("CLUSTER", "REPLICATE", c.ids[c.nodes[i]]).Err() == nil
		})
	}
	c.waitReady()
	return c
}

// waitReady waits until every slot is served and every replica follows, as
// every node sees it.
func (c *Cluster) waitReady() {
	c.t.Helper()
	c.all("says the cluster is well", func(n *Server) bool {
		view, _ := n.Do("CLUSTER", "NODES").Text()
		return n.clusterInfo("cluster_state") == "ok" && strings.Count(view, "slave ") == len(c.nodes)-masters &&
			(n.Info("replication", "role") == "master" || n.Info("replication", "master_link_status") == "up")
	})
}

// all waits until ok holds for every node that runs.
func (c *Cluster) all(what string, ok func(n *Server) bool) {
	c.t.Helper()
	for _, n := range c.nodes {
		if n.cmd != nil {
			until(c.t, n.Addr+" "+what, func() bool { return ok(n) })
		}
	}
}

func (s *Server) clusterInfo(field string) string {
	text, _ := s.Do("CLUSTER", "INFO").Text()
	return fieldOf(text, field)
}

// busOf returns the port on which a node talks to the others.
func (c *Cluster) busOf(n *Server) string {
	for i, a := range n.args {
		if a == "--cluster-port" {
			return n.args[i+1]
		}
	}
	return ""
}

// Nodes returns all nodes.
func (c *Cluster) Nodes() []*Server { return c.nodes }

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() (addrs []string) {
	for _, n := range c.nodes {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}

// Find returns the slot and the master of the keys that match a pattern. They
// must be in one slot.
func (c *Cluster) Find(pattern string) (slot int, owner *Server) {
	c.t.Helper()
	for _, n := range c.nodes {
		if n.cmd == nil || n.Info("replication", "role") != "master" {
			continue
		}
		if keys, _ := n.Do("KEYS", pattern).StringSlice(); len(keys) > 0 {
			slot, _ := n.must("CLUSTER", "KEYSLOT", keys[0]).Int()
			return slot, n
		}
	}
	c.t.Fatalf("no master has keys like %q", pattern)
	return 0, nil
}

// replicaOf returns the node that follows a master.
func (c *Cluster) replicaOf(master *Server) *Server {
	c.t.Helper()
	replica, err := c.follower(master)
	if err != nil {
		c.t.Fatal(err)
	}
	return replica
}

// PauseReplication makes the replica of a master miss everything from now on; it
// still takes over.
func (c *Cluster) PauseReplication(master *Server) {
	c.t.Helper()
	if err := master.cutReplicas(); err != nil {
		c.t.Fatal(err)
	}
}

// Kill ends a master at once, as a crash does, and returns its replica when it
// has taken over.
func (c *Cluster) Kill(master *Server) (promoted *Server) {
	c.t.Helper()
	replica := c.replicaOf(master)
	master.Kill()
	c.waitTaken(replica)
	return replica
}

// Failover makes the replica of a master take over while the master works, and
// returns it when it has.
func (c *Cluster) Failover(master *Server) (promoted *Server) {
	c.t.Helper()
	replica := c.replicaOf(master)
	replica.must("CLUSTER", "FAILOVER")
	c.waitTaken(replica)
	return replica
}

func (c *Cluster) waitTaken(replica *Server) {
	c.t.Helper()
	until(c.t, replica.Addr+" takes over", func() bool { return replica.Info("replication", "role") == "master" })
	c.all("says the cluster is well", func(n *Server) bool { return n.clusterInfo("cluster_state") == "ok" })
}

// Stages of a move, in which clients are sent on or told to try again.
const (
	// Begun: nothing has moved, and what is not there is answered with ASK.
	Begun = "begun"
	// Moved: everything has moved, and the slot is still the old master's.
	Moved = "moved"
)

// MoveSlot moves a slot from its master to another and calls at, if not nil, at
// each stage.
func (c *Cluster) MoveSlot(slot int, from *Server, at func(stage string)) (to *Server) {
	c.t.Helper()
	for _, n := range c.nodes {
		if n != from && n.cmd != nil && n.Info("replication", "role") == "master" {
			to = n
		}
	}
	if at == nil {
		at = func(string) {}
	}
	to.must("CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[from])
	from.must("CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[to])
	at(Begun)
	for {
		keys := from.must("CLUSTER", "GETKEYSINSLOT", slot, 1000).Val().([]any)
		if len(keys) == 0 {
			break
		}
		from.must(append([]any{"MIGRATE", "127.0.0.1", to.Port, "", 0, 5000, "KEYS"}, keys...)...)
	}
	at(Moved)
	to.must("CLUSTER", "SETSLOT", slot, "NODE", c.ids[to])
	for _, n := range c.nodes {
		if n != to && n.cmd != nil && n.Info("replication", "role") == "master" {
			n.must("CLUSTER", "SETSLOT", slot, "NODE", c.ids[to])
		}
	}
	return to
}
