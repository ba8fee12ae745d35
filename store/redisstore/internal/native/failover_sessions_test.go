// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// holders are many clients that hold a lock each.
type holders struct {
	t             *testing.T
	clients       []*fencelock.Client
	leases        []*fencelock.Lease
	resumed, lost atomic.Int64
}

// holdEach opens n clients, which share stores, and lets each acquire a lock.
func holdEach(t *testing.T, n int, stores []driver.Store, ttl time.Duration) *holders {
	t.Helper()
	c := &holders{t: t, clients: make([]*fencelock.Client, n), leases: make([]*fencelock.Lease, n)}
	opts := fencelock.Options{TTL: ttl, StoreTimeout: time.Minute, Hooks: fencelock.Hooks{Event: func(e fencelock.Event) {
		switch e.Kind {
		case fencelock.SessionResumed:
			c.resumed.Add(1)
		case fencelock.SessionLost, fencelock.LeaseLost:
			c.lost.Add(1)
		}
	}}}
	c.each(func(i int) (err error) {
		if c.clients[i], err = fencelock.New(stores[i%len(stores)], &opts); err == nil {
			c.leases[i], err = c.clients[i].Mutex(fmt.Sprint("lock ", i)).Lock(t.Context())
		}
		return err
	})
	return c
}

// each calls f for every client, some at the same time.
func (c *holders) each(f func(i int) error) {
	c.t.Helper()
	const workers = 32
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(c.clients); i += workers {
				if err := f(i); err != nil {
					c.t.Errorf("client %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if c.t.Failed() {
		c.t.FailNow()
	}
}

// cpu is the processor time that a server has used, in seconds.
func cpu(s *servers.RedisServer) float64 {
	user, _ := strconv.ParseFloat(s.Info("cpu", "used_cpu_user"), 64)
	sys, _ := strconv.ParseFloat(s.Info("cpu", "used_cpu_sys"), 64)
	return user + sys
}

// endGrace sets up a namespace without a grace period.
func endGrace(t *testing.T, store driver.Store) {
	t.Helper()
	must.OK(t, store.(driver.Configurer).Begin(t.Context()))
}

// TestFailoverOfManySessions: the master is replaced by a replica that has missed the
// last locks. Every session finds out and puts its lock back before the grace period ends.
// With -sessions.all there are 2,000 sessions.
func TestFailoverOfManySessions(t *testing.T) {
	t.Parallel()
	sessions, ttl := 200, 30*time.Second // a failover may take ten on a slow machine
	if *allLists {
		sessions = 2000
	}
	s := redistest.Redis.StartSentinels(t, redistest.Soon)
	opts := &native.Options{Namespace: lists + "Failover" + lazy, Grace: true, MaxTTL: ttl, Accept: []string{"min-replicas"}}
	var stores []driver.Store
	for i := range 16 {
		stores = append(stores, libraries[i%len(libraries)].open(t, login{Sentinels: s.Addrs}, opts))
	}
	endGrace(t, stores[0])
	c := holdEach(t, sessions, stores, ttl)
	old := s.Master()
	began := time.Now()
	s.PauseReplication()
	c.each(func(i int) (err error) { // what the replica misses
		if i%10 == 0 {
			if err = c.leases[i].Unlock(t.Context()); err == nil {
				c.leases[i], err = c.clients[i].Mutex(fmt.Sprint("late ", i)).Lock(t.Context())
			}
		}
		return err
	})
	s.KillMaster()
	master, err := s.AwaitPromoted(old.RedisServer)
	must.OK(t, err)
	used := cpu(master)
	t.Logf("the replica is the master after %v", time.Since(began))
	redistest.WaitFor(t, "all sessions have resumed", func() bool { return c.resumed.Load() >= int64(sessions) })
	t.Logf("%d sessions have resumed after %v; the server used %.0f ms for that", sessions, time.Since(began), 1000*(cpu(master)-used))
	st, err := c.clients[0].Inspect(t.Context(), c.leases[0].Name())
	if err != nil || st.Grace <= 0 {
		t.Errorf("%+v, %v; the grace period should not be over", st, err)
	}
	c.each(func(i int) error {
		l := c.leases[i]
		st, err := c.clients[i].Inspect(t.Context(), l.Name())
		if err == nil && (len(st.Holders) != 1 || st.Holders[0].Token != l.Token() || !l.Valid()) {
			err = fmt.Errorf("%s is held with token %v (%v), and the store has %+v", l.Name(), l.Token(), l.Err(), st.Holders)
		}
		return err
	})
	if n := c.lost.Load(); n > 0 {
		t.Errorf("%d sessions or leases are lost", n)
	}
	c.each(func(i int) error { return c.clients[i].Close(context.Background()) })
}
