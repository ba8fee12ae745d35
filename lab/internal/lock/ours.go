// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/quorum"
	"github.com/fencelock/fencelock/store/redisstore"
)

// ours is a client of fencelock.
type ours struct {
	c       *fencelock.Client
	opts    []fencelock.LockOption
	closers []func() error
}

var _ Giver = (*ours)(nil)

type oursHeld struct{ *fencelock.Lease }

func (h oursHeld) Token() int64 { return int64(h.Lease.Token()) }

func (o *ours) Lock(ctx context.Context, name string) (Held, error) {
	l, err := o.c.Mutex(name, o.opts...).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return oursHeld{l}, nil
}

func (o *ours) TryLock(ctx context.Context, name string) (Held, error) {
	l, err := o.c.Mutex(name, o.opts...).TryLock(ctx)
	if err != nil {
		return nil, err
	}
	return oursHeld{l}, nil
}

func (o *ours) Break(ctx context.Context, name string) error {
	st, err := o.c.Inspect(ctx, name)
	if err != nil || len(st.Holders) == 0 {
		return err
	}
	_, err = o.c.ForceUnlock(ctx, name, st.Holders[0].Token)
	if errors.Is(err, fencelock.ErrNotHeld) {
		return nil // it was unlocked in between
	}
	return err
}

// Client returns the client of fencelock, for what Locks does not have.
func (o *ours) Client() *fencelock.Client { return o.c }

func (o *ours) Close(ctx context.Context) error {
	err := o.c.Close(ctx)
	for _, c := range o.closers {
		_ = c()
	}
	return err
}

// newOurs makes a client on a store; it closes what the closers close.
func newOurs(s Spec, store driver.Store, need fencelock.Need, closers ...func() error) (Locks, error) {
	c, err := fencelock.New(store, &fencelock.Options{TTL: s.TTL, Owner: s.Who, Require: need})
	if err != nil {
		return nil, err
	}
	o := &ours{c: c, closers: closers}
	if s.Linger > 0 && c.Guarantees().Linger {
		o.opts = append(o.opts, fencelock.Linger(s.Linger))
	}
	return o, nil
}

// MasterName is what sentinels call the master.
const MasterName = "locks"

// A pool of go-redis retains as many closed connections as it ever had idle ones, with 64 KB each. A small pool that
// is full from the start has that number at once; otherwise the heap grows for hours, which looks like a leak in a soak.
const (
	poolSize = 6
	onePool  = -1 // pipelines use it too, as in stores that redisstore.Open opens
)

// redis makes the client of one server.
func (s Spec) redis(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, Dialer: s.dial, PoolSize: poolSize, MinIdleConns: poolSize, PipelinePoolSize: onePool,
		ContextTimeoutEnabled: true, DisableIdentity: true})
}

// openRedis uses one server. With grace it asks for correctness.
func openRedis(s Spec, grace bool) (Locks, error) {
	return openClient(s, grace, s.redis(s.Addrs[0]))
}

// openSentinel uses the master that the sentinels name.
func openSentinel(s Spec, grace bool) (Locks, error) {
	return openClient(s, grace, redis.NewFailoverClient(&redis.FailoverOptions{MasterName: MasterName, SentinelAddrs: s.Addrs, Dialer: s.dial,
		PoolSize: poolSize, MinIdleConns: poolSize, PipelinePoolSize: onePool, ContextTimeoutEnabled: true, DisableIdentity: true}))
}

// openCluster uses a cluster.
func openCluster(s Spec, grace bool) (Locks, error) {
	return openClient(s, grace, redis.NewClusterClient(&redis.ClusterOptions{Addrs: s.Addrs, Dialer: s.dial,
		PoolSize: poolSize, MinIdleConns: poolSize, PipelinePoolSize: onePool, ContextTimeoutEnabled: true, DisableIdentity: true}))
}

// LockName is the lock that all clients use.
const LockName = "l0"

// FirstBucket is the key from whose slot in a cluster those of all buckets follow.
const FirstBucket = "fencelock:{fencelock:0}"

// ClusterSlot is the slot of LockName in a cluster, as docs/redis-layout.md has it, if first is
// that of FirstBucket.
func ClusterSlot(first int) int {
	const buckets, slots = 32, 16384
	h := fnv.New32a()
	h.Write([]byte(LockName))
	return (first + int(h.Sum32()%buckets)*slots/buckets) % slots
}

func openClient(s Spec, grace bool, client redis.UniversalClient) (Locks, error) {
	store, err := redisstore.New(client, &redisstore.Options{Grace: grace, MaxTTL: s.MaxTTL, Warn: func(driver.Finding) {}})
	if err != nil {
		return nil, err
	}
	need := fencelock.Efficiency
	if grace {
		need = fencelock.Correctness
	}
	return newOurs(s, store, need, client.Close)
}

// openQuorum uses all servers as nodes; each keeps quiet after a loss.
func openQuorum(s Spec) (Locks, error) {
	var nodes []quorum.Node
	var closers []func() error
	for i, addr := range s.Addrs {
		client := s.redis(addr)
		store, err := redisstore.New(client, &redisstore.Options{Grace: true, MaxTTL: s.MaxTTL, Warn: func(driver.Finding) {}})
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, quorum.Node{Name: fmt.Sprintf("n%d", i), Store: store})
		closers = append(closers, client.Close)
	}
	store, err := quorum.New(nodes, &quorum.Options{NodeTimeout: s.TTL / 4, Alarm: func(quorum.Alarm) {}})
	if err != nil {
		return nil, err
	}
	return newOurs(s, store, fencelock.Correctness, closers...)
}
