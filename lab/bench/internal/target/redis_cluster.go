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
	// Clients are connections to the masters, one for each.
	Clients []*redis.Client
}

// movedWithin is how long one MIGRATE may take, and nodeDown how long a node may be silent
// before another takes over: nothing that is measured shall end in a failover.
const (
	movedWithin = 2 * time.Minute
	nodeDown    = 3 * time.Minute
)

// StartRedisCluster starts six servers. The caller stops them.
func StartRedisCluster() (*RedisCluster, error) {
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
		c.Clients = append(c.Clients, redis.NewClient(&redis.Options{
			Addr: n.Addr, PoolSize: 1, ReadTimeout: movedWithin, DisableIdentity: true, MaxRetries: -1,
		}))
	}
	return c, nil
}

// Stop ends all nodes.
func (c *RedisCluster) Stop() {
	for _, client := range c.Clients {
		_ = client.Close()
	}
	c.RedisCluster.Stop()
}

// Fullest returns the number of the master with the most data.
func (c *RedisCluster) Fullest() int {
	used := func(n *servers.RedisServer) int {
		bytes, _ := strconv.Atoi(n.Info("memory", "used_memory"))
		return bytes
	}
	masters := c.Nodes[:len(c.Clients)]
	return slices.Index(masters, slices.MaxFunc(masters, func(a, b *servers.RedisServer) int { return cmp.Compare(used(a), used(b)) }))
}

// UsedSlots returns the slots of a master that have keys.
func (c *RedisCluster) UsedSlots(ctx context.Context, master int) (used []int, err error) {
	first, last := master*slots/len(c.Clients), (master+1)*slots/len(c.Clients)
	counts, err := c.Clients[master].Pipelined(ctx, func(p redis.Pipeliner) error {
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
		return c.Clients[at].Do(ctx, append([]any{"CLUSTER", "SETSLOT", slot}, words...)...).Err()
	}
	source, target := c.Nodes[from], c.Nodes[to]
	if err := set(to, "IMPORTING", c.ID(source)); err != nil {
		return err
	}
	if err := set(from, "MIGRATING", c.ID(target)); err != nil {
		return err
	}
	for {
		keys, err := c.Clients[from].ClusterGetKeysInSlot(ctx, slot, keysAtOnce).Result()
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
		if err := c.Clients[from].Do(ctx, migrate...).Err(); err != nil {
			return fmt.Errorf("MIGRATE of %d keys of slot %d: %w", len(keys), slot, err)
		}
	}
	if err := set(to, "NODE", c.ID(target)); err != nil {
		return err
	}
	return set(from, "NODE", c.ID(target)) // the others learn it from these two
}

// Cluster is a RedisCluster that candidates are measured on.
type Cluster struct{ *RedisCluster }

// StartCluster starts six servers. The caller stops them.
func StartCluster(context.Context) (Server, error) {
	c, err := StartRedisCluster()
	if err != nil {
		return nil, err
	}
	return Cluster{c}, nil
}

// Addr implements Server: one node is enough to find the others.
func (c Cluster) Addr() string { return c.Nodes[0].Addr }

// Version implements Server.
func (c Cluster) Version(context.Context) (string, error) {
	return fmt.Sprintf("%d masters and as many replicas, Redis %s", len(c.Clients), c.Nodes[0].Info("server", "redis_version")), nil
}

// ResetStats implements Server.
func (c Cluster) ResetStats(ctx context.Context) error {
	for _, client := range c.Clients {
		if err := client.ConfigResetStat(ctx).Err(); err != nil {
			return err
		}
	}
	return nil
}

// Stats implements Server. It is the sum of the masters.
func (c Cluster) Stats(ctx context.Context) (Stats, error) {
	sum := Stats{}
	for _, client := range c.Clients {
		text, err := client.Info(ctx, "commandstats").Result()
		if err != nil {
			return nil, err
		}
		s, err := ParseStats(text)
		if err != nil {
			return nil, err
		}
		sum.add(s)
	}
	return sum, nil
}

// CPU implements Server. It is the sum of masters and replicas.
func (c Cluster) CPU(context.Context) (sum float64, err error) {
	for _, n := range c.Nodes {
		ran, err := processTime(n.PID())
		if err != nil {
			return 0, err
		}
		sum += ran
	}
	return sum, nil
}

// Memory implements Server. It is the sum of the masters.
func (c Cluster) Memory(context.Context) (float64, error) { return c.sum("used_memory") }

// Data is Memory without the buffers of connections.
func (c Cluster) Data(context.Context) (float64, error) {
	all, err := c.sum("used_memory")
	if err != nil {
		return 0, err
	}
	clients, err := c.sum("mem_clients_normal")
	return all - clients, err
}

// sum adds up a number of INFO memory of the masters.
func (c Cluster) sum(field string) (sum float64, err error) {
	for _, n := range c.Nodes[:len(c.Clients)] {
		v, err := strconv.ParseFloat(n.Info("memory", field), 64)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, nil
}
