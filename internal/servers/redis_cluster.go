// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	masters = 3
	slots   = 16384
)

// RedisCluster is a cluster of three masters with a replica each.
type RedisCluster struct {
	// Nodes are the servers; the first three were started as masters.
	Nodes []*RedisServer
	ids   map[*RedisServer]string
}

// ClusterNode returns arguments of a node of a cluster, and its second port, on which it
// talks to the other nodes. By default that port is ten thousand above the first, where
// another process may listen.
func ClusterNode() (args []string, bus int, err error) {
	bus, err = FreePort()
	return []string{"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus)}, bus, err
}

// StartCluster starts six servers and joins them to a cluster. A node that has been silent
// for as long as down is taken for down. further are arguments of their command lines.
func (f Flavor) StartCluster(down time.Duration, further ...string) (*RedisCluster, error) {
	c := &RedisCluster{}
	err := c.start(f, down, further)
	if err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (c *RedisCluster) start(f Flavor, down time.Duration, further []string) error {
	var buses []string
	for range 2 * masters {
		args, bus, err := ClusterNode()
		if err != nil {
			return err
		}
		args = append(args, further...)
		n, err := f.Start(replicated(append(args, "--cluster-node-timeout", strconv.FormatInt(down.Milliseconds(), 10), "--cluster-config-file", "nodes.conf")...)...)
		if err != nil {
			return err
		}
		c.Nodes, buses = append(c.Nodes, n), append(buses, strconv.Itoa(bus))
	}
	return c.join(buses[0])
}

// JoinCluster joins six servers, started as nodes of a cluster, to one. bus is the second
// port of the first node, as the others reach it.
func JoinCluster(nodes []*RedisServer, bus string) (*RedisCluster, error) {
	c := &RedisCluster{Nodes: nodes}
	return c, c.join(bus)
}

func (c *RedisCluster) join(bus string) (err error) {
	c.ids = map[*RedisServer]string{}
	for i, n := range c.Nodes {
		c.ids[n], err = n.Do("CLUSTER", "MYID").Text()
		if err != nil {
			return err
		}
		err = n.must(nil, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if err == nil && i > 0 {
			err = n.must(nil, "CLUSTER", "MEET", "127.0.0.1", c.Nodes[0].Port, bus)
		}
		if err == nil && i < masters {
			err = n.must(nil, "CLUSTER", "ADDSLOTSRANGE", i*slots/masters, (i+1)*slots/masters-1)
		}
		if err != nil {
			return err
		}
	}
	if err := c.AwaitAll("knows all nodes", func(n *RedisServer) bool {
		return n.ClusterInfo("cluster_known_nodes") == strconv.Itoa(len(c.Nodes))
	}); err != nil {
		return err
	}
	for i, n := range c.Nodes[masters:] {
		if err := Await(n.Addr+" knows its master", func() bool {
			return n.Do("CLUSTER", "REPLICATE", c.ids[c.Nodes[i]]).Err() == nil
		}); err != nil {
			return err
		}
	}
	// Every slot is served and every replica follows, as every node sees it.
	return c.AwaitAll("reports that the cluster is well", func(n *RedisServer) bool {
		view, _ := n.Do("CLUSTER", "NODES").Text()
		return n.ClusterInfo("cluster_state") == "ok" && strings.Count(view, "slave ") == len(c.Nodes)-masters &&
			(n.Info("replication", "role") == "master" || n.Info("replication", "master_link_status") == "up")
	})
}

// AwaitAll waits until ok holds for every node that runs.
func (c *RedisCluster) AwaitAll(what string, ok func(n *RedisServer) bool) error {
	for _, n := range c.Nodes {
		if n.PID() == 0 {
			continue
		}
		if err := Await(n.Addr+" "+what, func() bool { return ok(n) }); err != nil {
			return err
		}
	}
	return nil
}

// ClusterInfo returns one field of CLUSTER INFO.
func (s *RedisServer) ClusterInfo(field string) string {
	text, _ := s.Do("CLUSTER", "INFO").Text()
	return fieldOf(text, field)
}

// ID is what the nodes call a node.
func (c *RedisCluster) ID(n *RedisServer) string { return c.ids[n] }

// Addrs returns the addresses of all nodes.
func (c *RedisCluster) Addrs() (addrs []string) {
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}

// Find returns the slot and the master of the keys that match a pattern. They must be in
// one slot.
func (c *RedisCluster) Find(pattern string) (slot int, owner *RedisServer, err error) {
	for _, n := range c.Nodes {
		if n.PID() == 0 || n.Info("replication", "role") != "master" {
			continue
		}
		if keys, _ := n.Do("KEYS", pattern).StringSlice(); len(keys) > 0 {
			slot, err := n.Do("CLUSTER", "KEYSLOT", keys[0]).Int()
			return slot, n, err
		}
	}
	return 0, nil, fmt.Errorf("no master has keys like %q", pattern)
}

// ReplicaOf returns the node that follows a master.
func (c *RedisCluster) ReplicaOf(master *RedisServer) (replica *RedisServer, err error) {
	err = Await(master.Addr+" has a replica", func() bool {
		for _, n := range c.Nodes {
			if n.PID() != 0 && n.Info("replication", "role") == "slave" &&
				n.Info("replication", "master_port") == strconv.Itoa(master.Port) {
				replica = n
			}
		}
		return replica != nil
	})
	return replica, err
}

// Failover makes the replica of a master take over while the master works, and returns
// the replica when it has.
func (c *RedisCluster) Failover(master *RedisServer) (promoted *RedisServer, err error) {
	replica, err := c.ReplicaOf(master)
	if err == nil {
		err = replica.must(nil, "CLUSTER", "FAILOVER")
	}
	if err == nil {
		err = c.AwaitMaster(replica)
	}
	return replica, err
}

// AwaitMaster waits until a replica has taken over.
func (c *RedisCluster) AwaitMaster(replica *RedisServer) error {
	if err := Await(replica.Addr+" takes over", func() bool { return replica.Info("replication", "role") == "master" }); err != nil {
		return err
	}
	return c.AwaitAll("reports that the cluster is well", func(n *RedisServer) bool { return n.ClusterInfo("cluster_state") == "ok" })
}

// Stop ends all nodes.
func (c *RedisCluster) Stop() {
	for _, n := range c.Nodes {
		n.Stop()
	}
}
