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
	return reader{o}, nil
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
		lockers[i] = &ours{users, client, store}
	}
	return lockers, nil
}

// Do implements Locker.
func (o *ours) Do(ctx context.Context, name string, section func()) error {
	l, err := o.client.Mutex(name).Lock(ctx)
	if err != nil {
		return err
	}
	if section != nil {
		section()
	}
	return l.Unlock(context.WithoutCancel(ctx)) // the time of a measurement ends in the middle of one
}

// Hold implements Locker.
func (o *ours) Hold(ctx context.Context, name string) error {
	_, err := o.client.Mutex(name).Lock(ctx)
	return err
}

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
	Name: "fencelock-goredis", Server: "redis", Bare: "bare-goredis", Settings: "defaults: TTL 15 s, one bucket, no grace", Waits: true,
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
var FencelockRueidis = &Candidate{
	Name: "fencelock-rueidis", Server: "redis", Bare: "bare-rueidis", Settings: "defaults: TTL 15 s, one bucket, no grace", Waits: true,
	Plain: listRequests, Parts: listParts, Overcounted: listOvercounted,
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
		store, closeStore, err := RueidisStore(at.Addr, n)
		if err != nil {
			return nil, err
		}
		return openOurs(store, n, closeStore)
	},
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

// FencelockLinger is FencelockRueidis with locks that linger in their process.
var FencelockLinger = &Candidate{
	Name: "fencelock-linger", Server: "redis", Bare: "bare-rueidis", Settings: FencelockRueidis.Settings + "; Linger 10 s", Waits: true,
	Plain: append([]string{"unsubscribe"}, listRequests...), Parts: listParts, Overcounted: listOvercounted,
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
		store, closeStore, err := RueidisStore(at.Addr, n)
		if err != nil {
			return nil, err
		}
		lockers, err := openOurs(store, n, closeStore)
		for i, l := range lockers {
			lockers[i] = lingerer{l.(*ours)}
		}
		return lockers, err
	},
}

// lingerer is ours, keeping every lock for a while.
type lingerer struct{ *ours }

// Do implements Locker.
func (l lingerer) Do(ctx context.Context, name string, section func()) error {
	held, err := l.client.Mutex(name, fencelock.Linger(10*time.Second)).Lock(ctx)
	if err != nil {
		return err
	}
	if section != nil {
		section()
	}
	return held.Unlock(context.WithoutCancel(ctx))
}

// FencelockReaders is FencelockRueidis with RLock instead of Lock. It is not in All: what
// excludes no other is not compared with locks.
var FencelockReaders = &Candidate{
	Name: "fencelock-readers", Server: "redis", Settings: FencelockRueidis.Settings, Waits: true,
	Plain: listRequests, Parts: listParts, Overcounted: listOvercounted,
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
		store, closeStore, err := RueidisStore(at.Addr, n)
		if err != nil {
			return nil, err
		}
		lockers, err := openOurs(store, n, closeStore)
		for i, l := range lockers {
			lockers[i] = reader{l.(*ours)}
		}
		return lockers, err
	},
}

// reader is ours, sharing every lock.
type reader struct{ *ours }

// Do implements Locker.
func (r reader) Do(ctx context.Context, name string, section func()) error {
	l, err := r.client.RWMutex(name).RLock(ctx)
	if err != nil {
		return err
	}
	if section != nil {
		section()
	}
	return l.Unlock(context.WithoutCancel(ctx))
}

// Hold implements Locker.
func (r reader) Hold(ctx context.Context, name string) error {
	_, err := r.client.RWMutex(name).RLock(ctx)
	return err
}
