// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Losses are the ways in which servers begin another life, or none for a while.
// They may be used from any goroutine, one after the other.
type Losses struct {
	// Forget loses all of the memory.
	Forget func() error
	// Restart loses nothing.
	Restart func() error
	// Checkpoint notes the memory; rewind loses what came later.
	Checkpoint func() (rewind func() error)
	// Sever makes the servers silent until heal is called.
	Sever func() (heal func())
}

// Losses of one server: it is killed and started again.
func (s *Server) Losses() Losses {
	return Losses{
		Forget:  func() error { return s.Do("FLUSHALL").Err() },
		Restart: s.Reboot,
		Checkpoint: func() func() error {
			rewind, err := s.Checkpoint()
			if err != nil {
				return func() error { return err }
			}
			return rewind
		},
		Sever: s.Stop,
	}
}

// Losses of the master, which comes back before a sentinel replaces it: start the
// set with Never. What replaces a master is a test of its own; it takes seconds.
func (s *Sentinels) Losses() Losses { return s.Master().Losses() }

// Losses of the slot that a key is in: its master is replaced by its replica,
// which knows everything or lags.
func (c *Cluster) Losses(key string) (Losses, error) {
	slot, err := c.nodes[0].Do("CLUSTER", "KEYSLOT", key).Int()
	if err != nil {
		return Losses{}, err
	}
	return Losses{
		Forget: func() error {
			owner, err := c.owner(slot)
			if err != nil {
				return err
			}
			return owner.Do("FLUSHALL").Err()
		},
		Restart: func() error {
			owner, err := c.owner(slot)
			if err != nil {
				return err
			}
			return c.replace(owner)
		},
		Checkpoint: func() func() error {
			owner, err := c.owner(slot)
			if err == nil {
				err = c.lag(owner)
			}
			return func() error {
				if err != nil {
					return err
				}
				return c.rewind(owner)
			}
		},
		Sever: func() func() {
			owner, err := c.owner(slot)
			if err != nil {
				return func() {}
			}
			return owner.Stop()
		},
	}, nil
}

// owner returns the master of a slot.
func (c *Cluster) owner(slot int) (*Server, error) {
	ranges, err := c.nodes[0].Do("CLUSTER", "SLOTS").Slice()
	if err != nil {
		return nil, err
	}
	for _, r := range ranges {
		parts := r.([]any)
		if int64(slot) < parts[0].(int64) || int64(slot) > parts[1].(int64) {
			continue
		}
		port := parts[2].([]any)[1].(int64)
		for _, n := range c.nodes {
			if int64(n.Port) == port {
				return n, nil
			}
		}
	}
	return nil, fmt.Errorf("nobody serves slot %d", slot)
}

// follower returns the node that follows a master.
func (c *Cluster) follower(master *Server) (replica *Server, err error) {
	err = eventually(master.Addr+" has a replica", func() bool {
		for _, n := range c.nodes {
			if n.cmd != nil && n.Info("replication", "role") == "slave" &&
				n.Info("replication", "master_port") == strconv.Itoa(master.Port) {
				replica = n
			}
		}
		return replica != nil
	})
	return replica, err
}

// inSync waits until a replica has all that its master has written.
func (c *Cluster) inSync(master, replica *Server) error {
	return eventually(replica.Addr+" knows what its master knows", func() bool {
		offset := master.Info("replication", "master_repl_offset")
		return offset != "" && replica.Info("replication", "master_link_status") == "up" &&
			replica.Info("replication", "slave_repl_offset") == offset
	})
}

// replace lets the replica of a master take over when it knows everything.
func (c *Cluster) replace(master *Server) error {
	replica, err := c.follower(master)
	if err == nil {
		err = c.inSync(master, replica)
	}
	if err != nil {
		return err
	}
	return c.takeOver(master, replica)
}

// lag makes the replica of a master miss everything from now on.
func (c *Cluster) lag(master *Server) error {
	replica, err := c.follower(master)
	if err == nil {
		err = c.inSync(master, replica)
	}
	if err != nil {
		return err
	}
	return master.cutReplicas()
}

// rewind lets the replica that lags take over, and the old master follow it.
func (c *Cluster) rewind(master *Server) error {
	replica, err := c.follower(master)
	if err != nil {
		return err
	}
	return errors.Join(c.takeOver(master, replica), master.Do("ACL", "SETUSER", "repl", "on").Err())
}

// takeOver makes a replica the master with what it has. It asks nobody for a
// vote: those who vote do so only so often.
func (c *Cluster) takeOver(master, replica *Server) error {
	if err := replica.Do("CLUSTER", "FAILOVER", "TAKEOVER").Err(); err != nil {
		return err
	}
	for _, n := range c.nodes {
		if err := eventually(n.Addr+" knows the new master", func() bool {
			view, _ := n.Do("CLUSTER", "NODES").Text()
			return servesNow(view, c.ids[replica]) && n.clusterInfo("cluster_state") == "ok"
		}); err != nil {
			return err
		}
	}
	return c.inSync(replica, master)
}

// servesNow says whether a node takes another for a master with slots.
func servesNow(view, id string) bool {
	for line := range strings.Lines(view) {
		if f := strings.Fields(line); len(f) > 8 && f[0] == id {
			return strings.Contains(f[2], "master")
		}
	}
	return false
}
