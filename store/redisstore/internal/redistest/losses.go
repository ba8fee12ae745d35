// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock/internal/servers"
)

// Losses are the ways in which servers restart, lose data or stop answering for a while.
// They may be used from any goroutine, one after the other.
type Losses struct {
	// Reset loses all data.
	Reset func() error
	// Restart loses nothing.
	Restart func() error
	// Checkpoint notes the data; rewind loses what came later.
	Checkpoint func() (rewind func() error)
	// Sever makes the servers silent until heal is called.
	Sever func() (heal func())
}

// Losses of one server: it is killed and started again.
func (s *Server) Losses() Losses {
	return Losses{
		Reset:   func() error { return s.Do("FLUSHALL").Err() },
		Restart: s.Reboot,
		Checkpoint: func() func() error {
			rewind, err := s.Checkpoint()
			if err != nil {
				return func() error { return err }
			}
			return rewind
		},
		Sever: s.Pause,
	}
}

// Losses of the master, which comes back before a sentinel replaces it: start the set with
// Never. Separate tests replace the master, which takes seconds.
func (s *Sentinels) Losses() Losses { return s.Master().Losses() }

// Losses of the slot that a key is in: its master is replaced by its replica,
// which knows everything or lags.
func (c *Cluster) Losses(key string) (Losses, error) {
	slot, err := c.Nodes[0].Do("CLUSTER", "KEYSLOT", key).Int()
	if err != nil {
		return Losses{}, err
	}
	return Losses{
		Reset: func() error {
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
			return owner.Pause()
		},
	}, nil
}

// owner returns the master of a slot.
func (c *Cluster) owner(slot int) (*node, error) {
	ranges, err := c.Nodes[0].Do("CLUSTER", "SLOTS").Slice()
	if err != nil {
		return nil, err
	}
	for _, r := range ranges {
		parts := r.([]any)
		if int64(slot) < parts[0].(int64) || int64(slot) > parts[1].(int64) {
			continue
		}
		port := parts[2].([]any)[1].(int64)
		for _, n := range c.Nodes {
			if int64(n.Port) == port {
				return n, nil
			}
		}
	}
	return nil, fmt.Errorf("no node serves slot %d", slot)
}

// inSync waits until a replica has all that its master has written.
func (c *Cluster) inSync(master, replica *node) error {
	return servers.Await(replica.Addr+" knows what its master knows", func() bool {
		offset := master.Info("replication", "master_repl_offset")
		return offset != "" && replica.Info("replication", "master_link_status") == "up" &&
			replica.Info("replication", "slave_repl_offset") == offset
	})
}

// replace lets the replica of a master take over when it knows everything.
func (c *Cluster) replace(master *node) error {
	replica, err := c.ReplicaOf(master)
	if err == nil {
		err = c.inSync(master, replica)
	}
	if err != nil {
		return err
	}
	return c.takeOver(master, replica)
}

// lag makes the replica of a master miss everything from now on.
func (c *Cluster) lag(master *node) error {
	replica, err := c.ReplicaOf(master)
	if err == nil {
		err = c.inSync(master, replica)
	}
	if err != nil {
		return err
	}
	return master.CutReplicas()
}

// rewind lets the replica that lags take over, and the old master follow it.
func (c *Cluster) rewind(master *node) error {
	replica, err := c.ReplicaOf(master)
	if err != nil {
		return err
	}
	return errors.Join(c.takeOver(master, replica), master.LetReplicas())
}

// takeOver makes a replica the master with what it has. It asks for no
// vote: nodes vote only so often.
func (c *Cluster) takeOver(master, replica *node) error {
	if err := replica.Do("CLUSTER", "FAILOVER", "TAKEOVER").Err(); err != nil {
		return err
	}
	listed := c.listsShards()
	for _, n := range c.Nodes {
		if err := servers.Await(n.Addr+" knows the new master", func() bool {
			view, _ := n.Do("CLUSTER", "NODES").Text()
			return servesNow(view, c.ID(replica)) && (!listed || follows(view, c.ID(master))) && n.ClusterInfo("cluster_state") == "ok"
		}); err != nil {
			return err
		}
	}
	return c.inSync(replica, master)
}

// listsShards reports whether rueidis learns from CLUSTER SHARDS who serves a slot, as it
// does from version 8 on. With others a failover need not wait for follows, which takes
// seconds: in the conformance suite that is ten minutes.
func (c *Cluster) listsShards() bool {
	major, _, _ := strings.Cut(c.Nodes[0].Info("server", "redis_version"), ".")
	n, err := strconv.Atoi(major)
	return err == nil && n >= 8
}

// follows reports whether a node takes another for a replica. While it takes both nodes of
// a shard for masters, Redis 8 answers CLUSTER SHARDS without the slots of that shard, and
// rueidis finds no node for them.
func follows(view, id string) bool {
	for line := range strings.Lines(view) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == id {
			return strings.Contains(f[2], "slave")
		}
	}
	return false
}

// servesNow reports whether a node takes another for a master with slots.
func servesNow(view, id string) bool {
	for line := range strings.Lines(view) {
		if f := strings.Fields(line); len(f) > 8 && f[0] == id {
			return strings.Contains(f[2], "master")
		}
	}
	return false
}

// Loser is a hook of go-redis that loses the replies to scripts while On is set: the server has run them, and their
// caller does not learn what came of it.
type Loser struct {
	On   atomic.Bool
	Lost atomic.Int64
}

var _ redis.Hook = (*Loser)(nil)

// DialHook implements redis.Hook.
func (*Loser) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (*Loser) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (l *Loser) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && l.On.Load() && strings.HasPrefix(cmd.Name(), "eval") {
			l.Lost.Add(1)
			cmd.SetErr(io.ErrUnexpectedEOF)
			return io.ErrUnexpectedEOF
		}
		return err
	}
}
