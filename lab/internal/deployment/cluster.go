// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/lock"
	"github.com/fencelock/fencelock/lab/internal/server"
	"github.com/redis/go-redis/v9"
)

// cluster is three masters with a replica each. One master grants: that of the
// slot of the lock.
var cluster = Deployment{Name: "cluster", Lock: "cluster", Fair: true, Lingers: true, Replicated: true, Quiet: 1,
	Shape: ofCluster, Can: canCluster, start: startCluster}

// clusterGrace grants nothing for a TTL after another server took over.
var clusterGrace = Deployment{Name: "cluster-grace", Lock: "cluster-grace", Fair: true, Lingers: true, Replicated: true, SurvivesDataLoss: true, Quiet: 2,
	Shape: ofCluster, Can: canCluster, start: startCluster}

var (
	ofCluster  = fault.Shape{Servers: 2 * masters, Replicated: true}
	canCluster = slices.Concat(ofRedis, ofPeers, []fault.Verb{fault.Failover, fault.Migrate})
)

const masters = 3

// nodes is a running cluster.
type nodes struct {
	rig *Rig
	all []*server.Redis
	ids []string
	bus []string // as the others see it
}

func startCluster(ttl time.Duration, w fault.Wants) (*Rig, error) {
	c := &nodes{rig: &Rig{Peers: &servers.Peers{}}}
	c.rig.stop = append(c.rig.stop, c.rig.Peers.Close)
	for i := range 2 * masters {
		if err := c.add(i, ttl, w); err != nil {
			return c.rig, err
		}
	}
	c.rig.Addrs = c.rig.Reach
	c.rig.Master = c.master
	c.rig.Reign = func() (string, error) {
		m, err := c.master()
		return fmt.Sprintf("node %d", m), err
	}
	c.rig.Failover = c.failover
	c.rig.Migrate = c.migrate
	return c.rig, c.join()
}

// add starts node i, which others reach by way of a proxy.
func (c *nodes) add(i int, ttl time.Duration, w fault.Wants) error {
	args, bus, err := servers.ClusterNode()
	if err != nil {
		return err
	}
	front, err := c.rig.Peers.Front(i, fmt.Sprintf("127.0.0.1:%d", bus))
	if err != nil {
		return err
	}
	c.bus = append(c.bus, front[strings.LastIndex(front, ":")+1:])
	s, err := server.StartRedis(w, append(args, "--cluster-announce-bus-port", c.bus[i],
		"--cluster-node-timeout", strconv.FormatInt(ttl.Milliseconds()*7/10, 10), "--cluster-config-file", "nodes.conf", "--repl-diskless-sync-delay", "0")...)
	if err != nil {
		return err
	}
	c.rig.Peers.Process(i, s.PID)
	c.all = append(c.all, s)
	c.rig.Servers, c.rig.Reach = append(c.rig.Servers, s), append(c.rig.Reach, s.Addr)
	return nil
}

// do sends a command to a node.
func (c *nodes) do(i int, args ...any) (any, error) {
	if c.all[i].PID() == 0 {
		return nil, fmt.Errorf("node %d does not run", i)
	}
	client := redis.NewClient(&redis.Options{Addr: c.all[i].Addr, DisableIdentity: true, MaxRetries: -1, ReadTimeout: time.Second})
	defer client.Close()
	return client.Do(context.Background(), args...).Result()
}

// join joins the nodes to a cluster.
func (c *nodes) join() error {
	var all []*servers.RedisServer
	for _, n := range c.all {
		all = append(all, n.Node())
	}
	joined, err := servers.JoinCluster(all, c.bus[0])
	for _, n := range all {
		c.ids = append(c.ids, joined.ID(n))
	}
	return err
}

func (c *nodes) text(i int, args ...any) string {
	v, _ := c.do(i, args...)
	return fmt.Sprint(v)
}

// owner asks the nodes, one after the other, who has the slot of the lock.
func (c *nodes) owner() (slot, master int, err error) {
	v, err := c.do(0, "CLUSTER", "KEYSLOT", lock.FirstBucket)
	for i := 1; err != nil && i < len(c.all); i++ {
		v, err = c.do(i, "CLUSTER", "KEYSLOT", lock.FirstBucket)
	}
	if err != nil {
		return 0, 0, err
	}
	slot = lock.ClusterSlot(int(v.(int64)))
	for _, i := range c.wellFirst() {
		if !strings.Contains(c.text(i, "INFO", "replication"), "role:master") {
			continue
		}
		if v, err := c.do(i, "CLUSTER", "SLOTS"); err == nil {
			if id := holderOf(v, slot); id != "" {
				for j, known := range c.ids {
					if id == known {
						return slot, j, nil
					}
				}
			}
		}
	}
	return slot, 0, errors.New("no node knows who has the slot of the lock")
}

// wellFirst are the nodes in the order in which to believe them: one that is cut off
// from the majority knows it, and may not know who took over.
func (c *nodes) wellFirst() (all []int) {
	var unwell []int
	for i := range c.all {
		if strings.Contains(c.text(i, "CLUSTER", "INFO"), "cluster_state:ok") {
			all = append(all, i)
		} else {
			unwell = append(unwell, i)
		}
	}
	return append(all, unwell...)
}

// holderOf reads an answer to CLUSTER SLOTS.
func holderOf(answer any, slot int) string {
	ranges, _ := answer.([]any)
	for _, r := range ranges {
		f, _ := r.([]any)
		if len(f) < 3 {
			continue
		}
		from, _ := f[0].(int64)
		to, _ := f[1].(int64)
		node, _ := f[2].([]any)
		if int64(slot) >= from && int64(slot) <= to && len(node) > 2 {
			return fmt.Sprint(node[2])
		}
	}
	return ""
}

func (c *nodes) master() (int, error) {
	_, m, err := c.owner()
	return m, err
}

// failover makes a replica take over without an agreement.
func (c *nodes) failover(context.Context) error {
	_, m, err := c.owner()
	if err != nil {
		return err
	}
	for i := range c.all {
		if strings.Contains(c.text(i, "INFO", "replication"), "master_port:"+strconv.Itoa(c.all[m].Port)) {
			_, err := c.do(i, "CLUSTER", "FAILOVER", "TAKEOVER")
			return err
		}
	}
	return errors.New("the master has no replica")
}

// migrate moves the slot of the lock to the next master, as redis-cli does.
func (c *nodes) migrate(context.Context) error {
	slot, from, err := c.owner()
	if err != nil {
		return err
	}
	to := -1
	for i := 1; i < len(c.all) && to < 0; i++ {
		if j := (from + i) % len(c.all); strings.Contains(c.text(j, "INFO", "replication"), "role:master") {
			to = j
		}
	}
	if to < 0 {
		return errors.New("there is no other master")
	}
	if _, err := c.do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[from]); err != nil {
		return err
	}
	if _, err := c.do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[to]); err != nil {
		return err
	}
	time.Sleep(100 * time.Millisecond) // as long as other keys would take
	if err := c.moveKeys(slot, from, to); err != nil {
		return err
	}
	time.Sleep(100 * time.Millisecond)
	for _, i := range []int{to, from} {
		if _, err := c.do(i, "CLUSTER", "SETSLOT", slot, "NODE", c.ids[to]); err != nil {
			return err
		}
	}
	return nil
}

// moveKeys moves all keys of a slot. Clients that need one that has moved write to the other
// master already, so the first has none in the end.
func (c *nodes) moveKeys(slot, from, to int) error {
	for {
		v, err := c.do(from, "CLUSTER", "GETKEYSINSLOT", slot, 100)
		if err != nil {
			return err
		}
		keys, _ := v.([]any)
		if len(keys) == 0 {
			return nil
		}
		words := append([]any{"MIGRATE", "127.0.0.1", c.all[to].Port, "", 0, 5000, "KEYS"}, keys...)
		if _, err := c.do(from, words...); err != nil {
			return err
		}
	}
}
