// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/rueidisstore"
)

// ours is a client of fencelock with default options, on any store.
type ours struct {
	*shared
	client *fencelock.Client
	store  driver.Store
	lock   lock
}

// lock is how a client takes a lock.
type lock func(ctx context.Context, c *fencelock.Client, name string) (*fencelock.Lease, error)

func alone(ctx context.Context, c *fencelock.Client, name string) (*fencelock.Lease, error) {
	return c.Mutex(name).Lock(ctx)
}

func lingering(ctx context.Context, c *fencelock.Client, name string) (*fencelock.Lease, error) {
	return c.Mutex(name, fencelock.Linger(10*time.Second)).Lock(ctx)
}

func reading(ctx context.Context, c *fencelock.Client, name string) (*fencelock.Lease, error) {
	return c.RWMutex(name).RLock(ctx)
}

// StoreOf returns the store of a locker of ours.
func StoreOf(l Locker) (driver.Store, error) {
	o, ok := l.(*ours)
	if !ok {
		return nil, fmt.Errorf("%T is not a locker of ours", l)
	}
	return o.store, nil
}

// Reading returns a locker of ours that shares every lock.
func Reading(l Locker) (Locker, error) {
	o, ok := l.(*ours)
	if !ok {
		return nil, fmt.Errorf("%T is not a locker of ours", l)
	}
	reader := *o
	reader.lock = reading
	return &reader, nil
}

// OnStore opens n clients, each with its own session, on a store that the caller closes.
func OnStore(store driver.Store, n int) ([]Locker, error) { return openOurs(store, n, func() {}) }

// owner is the same for all: the default has the number of the process, and its digits are bytes of each lock.
const owner = "root@bench-host:12345"

// openOurs opens n clients, each with its own session, on one store.
func openOurs(store driver.Store, n int, closeStore func()) ([]Locker, error) {
	users := &shared{users: n, close: closeStore}
	lockers := make([]Locker, n)
	for i := range lockers {
		client, err := fencelock.New(store, &fencelock.Options{Owner: owner})
		if err != nil {
			closeStore()
			return nil, err
		}
		lockers[i] = &ours{users, client, store, alone}
	}
	return lockers, nil
}

// newOurs opens one.
func newOurs(store driver.Store, closeStore func()) (Locker, error) {
	lockers, err := openOurs(store, 1, closeStore)
	if err != nil {
		return nil, err
	}
	return lockers[0], nil
}

// Lock implements Locker.
func (o *ours) Lock(ctx context.Context, name string) (Held, error) {
	l, err := o.lock(ctx, o.client, name)
	return lease{l}, err
}

type lease struct{ *fencelock.Lease }

// Unlock implements Held. The time of a measurement ends in the middle of one.
func (l lease) Unlock(ctx context.Context) error { return l.Lease.Unlock(context.WithoutCancel(ctx)) }

// Close implements Locker. It gives the client a moment to end its session, so
// that the next measurement does not pay for this one; a holder of a million
// leases is not waited for.
func (o *ours) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = o.client.Close(ctx)
	o.shared.Close()
}

// FencelockGoRedis is fencelock on redisstore, with go-redis.
var FencelockGoRedis = &Candidate{
	Name: "fencelock-goredis", Server: "redis", Bare: "bare-goredis", Settings: rueidisSettings, Waits: true,
	Plain: listRequests, Parts: listParts, Overcounted: listOvercounted,
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
		client := newGoRedis(at.Addr)
		store, err := redisstore.New(client, nil)
		if err != nil {
			_ = client.Close()
			return nil, err
		}
		return openOurs(store, n, func() { _ = client.Close() })
	},
}

// A transaction is executed by one EXEC, a keep-alive without a transaction has one ZADD, and a release without a
// script reads once how long the list is. Scripts of contended names may read that, too.
var (
	listRequests    = []string{"subscribe", "exec", "llen", "zadd"}
	listParts       = []string{"multi", "lmove", "rpush", "lrem", "hmget", "script", "time", "zrangebyscore", "zcount"}
	listOvercounted = []string{"llen", "zadd"}
)

// FencelockRueidis is fencelock on rueidisstore.
var FencelockRueidis = onRueidis("fencelock-rueidis", rueidisSettings, alone)

const rueidisSettings = "defaults: TTL 15 s, one bucket, no grace"

// FencelockLinger is FencelockRueidis with locks that linger in their process.
var FencelockLinger = onRueidis("fencelock-linger", rueidisSettings+"; Linger 10 s", lingering, "unsubscribe")

// FencelockReaders is FencelockRueidis with RLock instead of Lock. It is not in All: what
// excludes no other is not compared with locks.
var FencelockReaders = onRueidis("fencelock-readers", rueidisSettings, reading)

func onRueidis(name, settings string, how lock, sends ...string) *Candidate {
	return &Candidate{
		Name: name, Server: "redis", Bare: "bare-rueidis", Settings: settings, Waits: true,
		Plain: append(sends, listRequests...), Parts: listParts, Overcounted: listOvercounted,
		Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
			store, closeStore, err := RueidisStore(at.Addr, n)
			if err != nil {
				return nil, err
			}
			lockers, err := openOurs(store, n, closeStore)
			for _, l := range lockers {
				l.(*ours).lock = how
			}
			return lockers, err
		},
	}
}

// RueidisStore opens the store of FencelockRueidis, for so many lockers.
func RueidisStore(addr string, lockers int) (store driver.Store, closeStore func(), err error) {
	client, err := newRueidis(addr, lockers)
	if err != nil {
		return nil, nil, err
	}
	store, err = rueidisstore.New(client, nil)
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return store, client.Close, nil
}

// FencelockCluster is fencelock on a Redis cluster.
var FencelockCluster = &Candidate{
	Name: "fencelock-cluster", Server: "cluster", Settings: "defaults: TTL 15 s, 32 buckets; no grace, which is accepted", Plain: []string{"ssubscribe"}, Waits: true,
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{at.Addr}, DisableCache: true, BlockingPoolSize: max(rueidis.DefaultPoolSize, 4*n),
		})
		if err != nil {
			return nil, err
		}
		store, err := rueidisstore.New(client, &rueidisstore.Options{Accept: []string{"replicas-without-grace"}})
		if err != nil {
			client.Close()
			return nil, err
		}
		return openOurs(store, n, client.Close)
	},
}
