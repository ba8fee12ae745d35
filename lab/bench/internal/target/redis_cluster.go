// SPDX-License-Identifier: Apache-2.0

package target

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/bench/internal/child"
)

// RedisCluster is three masters with a replica each.
type RedisCluster struct {
	*servers.RedisCluster
	Redises // the masters
}

// movedWithin is how long one MIGRATE may take, and nodeDown how long a node may be silent
// before another takes over: nothing that is measured shall end in a failover.
const (
	movedWithin = 2 * time.Minute
	nodeDown    = 3 * time.Minute
)

// StartCluster starts six servers. The caller stops them.
func StartCluster(context.Context) (Server, error) {
	if err := child.Unmoved("a Redis cluster"); err != nil {
		return nil, err
	}
	s, err := servers.Redis.StartCluster(nodeDown)
	if err != nil {
		return nil, err
	}
	c := &RedisCluster{RedisCluster: s}
	for _, n := range s.Nodes[:len(s.Nodes)/2] {
		ComeFirst(n.PID())
		c.nodes = append(c.nodes, &Redis{n, redis.NewClient(&redis.Options{
			Addr: n.Addr, PoolSize: 1, ReadTimeout: movedWithin, DisableIdentity: true, MaxRetries: -1,
		})})
	}
	return c, nil
}

// Stop ends all nodes.
func (c *RedisCluster) Stop() {
	for _, n := range c.nodes {
		_ = n.admin.Close()
	}
	c.RedisCluster.Stop()
}

// Masters is how many there are: the first nodes.
func (c *RedisCluster) Masters() int { return len(c.nodes) }

// Fullest returns the number of the master with the most data.
func (c *RedisCluster) Fullest() int {
	used := func(n *servers.RedisServer) int {
		bytes, _ := strconv.Atoi(n.Info("memory", "used_memory"))
		return bytes
	}
	masters := c.Nodes[:len(c.nodes)]
	return slices.Index(masters, slices.MaxFunc(masters, func(a, b *servers.RedisServer) int { return cmp.Compare(used(a), used(b)) }))
}

// UsedSlots returns the slots of a master that have keys.
func (c *RedisCluster) UsedSlots(ctx context.Context, master int) (used []int, err error) {
	first, last := master*slots/len(c.nodes), (master+1)*slots/len(c.nodes)
	counts, err := c.nodes[master].admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for slot := first; slot < last; slot++ {
			p.ClusterCountKeysInSlot(ctx, slot)
		}
		return nil
	})
	for i, count := range counts {
		if count.(*redis.IntCmd).Val() > 0 {
			used = append(used, first+i)
		}
	}
	return used, err
}

const slots = 16384

// keysAtOnce is how many keys one MIGRATE moves.
const keysAtOnce = 100

// MoveSlot moves a slot from one master to another, as redis-cli does.
func (c *RedisCluster) MoveSlot(ctx context.Context, slot, from, to int) error {
	set := func(at int, words ...any) error {
		return c.nodes[at].admin.Do(ctx, append([]any{"CLUSTER", "SETSLOT", slot}, words...)...).Err()
	}
	source, target := c.Nodes[from], c.Nodes[to]
	if err := set(to, "IMPORTING", c.ID(source)); err != nil {
		return err
	}
	if err := set(from, "MIGRATING", c.ID(target)); err != nil {
		return err
	}
	for {
		keys, err := c.nodes[from].admin.ClusterGetKeysInSlot(ctx, slot, keysAtOnce).Result()
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		migrate := []any{"MIGRATE", "127.0.0.1", target.Port, "", 0, movedWithin.Milliseconds(), "KEYS"}
		for _, k := range keys {
			migrate = append(migrate, k)
		}
		if err := c.nodes[from].admin.Do(ctx, migrate...).Err(); err != nil {
			return fmt.Errorf("MIGRATE of %d keys of slot %d: %w", len(keys), slot, err)
		}
	}
	if err := set(to, "NODE", c.ID(target)); err != nil {
		return err
	}
	return set(from, "NODE", c.ID(target)) // the others learn it from these two
}

// Addr implements Server: one node is enough to find the others.
func (c *RedisCluster) Addr() string { return c.Nodes[0].Addr }

// Version implements Server.
func (c *RedisCluster) Version(context.Context) (string, error) {
	return fmt.Sprintf("%d masters and as many replicas, Redis %s", len(c.nodes), c.Nodes[0].Info("server", "redis_version")), nil
}

// CPU implements Server. It is the sum of masters and replicas.
func (c *RedisCluster) CPU(context.Context) (sum float64, err error) {
	for _, n := range c.Nodes {
		ran, err := processTime(n.PID())
		if err != nil {
			return 0, err
		}
		sum += ran
	}
	return sum, nil
}
