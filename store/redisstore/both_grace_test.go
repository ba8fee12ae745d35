// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/both"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestMigrationIntoAGracePeriodLeavesTheOldLock: processes in phase both wait for the first grace period of the new
// namespace, and those in phase old lock on meanwhile.
func TestMigrationIntoAGracePeriodLeavesTheOldLock(t *testing.T) {
	formats := map[string]func(redis.UniversalClient) (driver.Store, error){
		"redisstore": func(client redis.UniversalClient) (driver.Store, error) { return redisstore.New(client, nil) },
	}
	for name, open := range otherFormats {
		formats[name] = open
	}
	var longest atomic.Int64
	t.Cleanup(func() {
		figure.Print("grace-both-old-blocked-ms", float64(longest.Load())/1e6, figure.AtMost(200))
	})
	for name, open := range formats {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &graceMigration{t: t, server: redistest.Start(t), open: open}
			took := m.play()
			for at := longest.Load(); int64(took) > at && !longest.CompareAndSwap(at, int64(took)); at = longest.Load() {
			}
			// The figure is judged where the machine is idle. A lock that is held through the grace period is found anywhere.
			if took > m.grace()/2 {
				t.Errorf("a process in phase old waited for %v", took)
			}
		})
	}
}

// graceMigration is a fleet that moves to a namespace with grace on the same server.
type graceMigration struct {
	t      *testing.T
	server *redistest.Server
	open   func(redis.UniversalClient) (driver.Store, error)
}

func (m *graceMigration) grace() time.Duration { return 6 * time.Second }

// old and next open the two stores for one process.
func (m *graceMigration) old() driver.Store { return m.opened(m.open) }

func (m *graceMigration) next() driver.Store {
	return m.opened(func(client redis.UniversalClient) (driver.Store, error) {
		return redisstore.New(client, &redisstore.Options{Namespace: "next", Grace: true, MaxTTL: m.grace()})
	})
}

func (m *graceMigration) opened(open func(redis.UniversalClient) (driver.Store, error)) driver.Store {
	m.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: m.server.Addr, ContextTimeoutEnabled: true})
	m.t.Cleanup(func() { _ = client.Close() })
	store, err := open(client)
	must.OK(m.t, err)
	return store
}

func (m *graceMigration) process(store driver.Store) *fencelock.Client {
	m.t.Helper()
	c, err := fencelock.New(store, &fencelock.Options{TTL: 3 * time.Second})
	must.OK(m.t, err)
	m.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// play returns the longest wait of a process in phase old until one in phase both was granted the lock. That is after the
// grace period.
func (m *graceMigration) play() (longest time.Duration) {
	const processes = 3
	before, began := m.process(m.old()), time.Now()
	granted := make(chan error, processes)
	for range processes {
		store, err := both.New(both.Stores{Old: m.old(), New: m.next()}, nil)
		must.OK(m.t, err)
		c := m.process(store)
		go func() {
			l, err := c.Mutex("orders/42").Lock(m.t.Context())
			granted <- err
			_ = l.Unlock(context.Background()) // of a lease that may be nil
		}()
	}
	for got := 0; got < processes; {
		select {
		case err := <-granted:
			must.OK(m.t, err)
			got++
			continue
		case <-time.After(20 * time.Millisecond):
		}
		asked := time.Now()
		l, err := before.Mutex("orders/42").Lock(m.t.Context())
		must.OK(m.t, err)
		if got == 0 {
			longest = max(longest, time.Since(asked))
		}
		_ = l.Unlock(m.t.Context())
	}
	if took := time.Since(began); took < m.grace()/2 {
		m.t.Errorf("all were granted the lock after %v: there was no grace period", took)
	}
	return longest
}
