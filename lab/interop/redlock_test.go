// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/fleet"
	"github.com/fencelock/fencelock/store/redisstore/setnxstore"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// masters are independent servers, a majority of which has a lock, or one.
type masters struct {
	*testing.T
	servers []*servers.RedisServer
}

func startMasters(t *testing.T, n int) *masters {
	m := &masters{T: t}
	for range n {
		m.servers = append(m.servers, redisServer(t))
	}
	return m
}

func (m *masters) clients() (all []redis.UniversalClient) {
	for _, s := range m.servers {
		c := redis.NewClient(&redis.Options{Addr: s.Addr, DialTimeout: time.Second})
		m.Cleanup(func() { _ = c.Close() })
		all = append(all, c)
	}
	return all
}

// locks returns a Go process with fencelock.
func (m *masters) locks() *fencelock.Client {
	m.Helper()
	clients := m.clients()
	store, err := setnxstore.New(clients[0], nil)
	if len(clients) > 1 {
		store, err = setnxstore.NewRedlock(clients, nil)
	}
	must.OK(m, err)
	locks, err := fencelock.New(store, &fencelock.Options{TTL: ttl})
	must.OK(m, err)
	m.Cleanup(func() { _ = locks.Close(context.Background()) })
	return locks
}

// mortalGo starts a Go process with fencelock that can be killed or paused.
func (m *masters) mortalGo() *peer {
	m.Helper()
	var addrs []string
	for _, s := range m.servers {
		addrs = append(addrs, s.Addr)
	}
	return startGo(m, "setnx://"+strings.Join(addrs, ","), shortTTL)
}

// redsync returns a Go process with redsync.
func (m *masters) redsync() *redsync.Redsync {
	var pools []redsyncpool.Pool
	for _, c := range m.clients() {
		pools = append(pools, goredis.NewPool(c))
	}
	return redsync.New(pools...)
}

// The title and the column of the page. The version is that of go.mod.
const (
	redlockTitle   = "redsync on three servers"
	redsyncVersion = "4.18.1"
)

// redlockRows are the rows of the page.
func redlockRows() (all []row) {
	for _, c := range redlock {
		all = append(all, row{redlockTitle, c.what, c.holder, c.waiter})
	}
	return all
}

// redlock are what must be so.
var redlock = []struct {
	what, holder, waiter string
	do                   func(m *masters, locks *fencelock.Client, sync *redsync.Redsync, name string)
}{
	{"excluded", "fencelock", "redsync", func(m *masters, locks *fencelock.Client, rs *redsync.Redsync, name string) {
		l, err := locks.Mutex(name).Lock(m.Context())
		must.OK(m, err)
		other := rs.NewMutex(name, redsync.WithExpiry(time.Minute), redsync.WithTries(1))
		if err := other.Lock(); err == nil {
			m.Fatal("redsync took the lock beside fencelock")
		}
		must.OK(m, l.Unlock(m.Context()))
		must.OK(m, servers.Await("redsync takes the lock", func() bool { return other.Lock() == nil }))
		if ok, err := other.Unlock(); !ok || err != nil {
			m.Errorf("redsync's unlock: %v, %v", ok, err)
		}
	}},
	{"excluded", "redsync", "fencelock", func(m *masters, locks *fencelock.Client, rs *redsync.Redsync, name string) {
		other := rs.NewMutex(name, redsync.WithExpiry(long))
		must.OK(m, other.Lock())
		if _, err := locks.Mutex(name).TryLock(m.Context()); !errors.Is(err, fencelock.ErrBusy) {
			m.Fatalf("TryLock beside redsync: %v", err)
		}
		got := make(chan error, 1)
		go func() {
			l, err := locks.Mutex(name).Lock(m.Context())
			if err == nil {
				err = l.Unlock(m.Context())
			}
			got <- err
		}()
		if ok, err := other.Unlock(); !ok || err != nil {
			m.Errorf("redsync's unlock: %v, %v", ok, err)
		}
		must.OK(m, await(m, "Lock after redsync's unlock", got))
	}},
	{"lease ends", "redsync", "fencelock", func(m *masters, locks *fencelock.Client, rs *redsync.Redsync, name string) {
		must.OK(m, rs.NewMutex(name, redsync.WithExpiry(2*time.Second)).Lock())
		l, err := locks.Mutex(name).Lock(m.Context())
		must.OK(m, err)
		must.OK(m, l.Unlock(m.Context()))
	}},
	{"holder killed", "fencelock", "redsync", func(m *masters, _ *fencelock.Client, rs *redsync.Redsync, name string) {
		g := m.mortalGo()
		g.Must("a", "LOCK", "lock", name)
		g.Kill()
		other := rs.NewMutex(name, redsync.WithExpiry(time.Minute), redsync.WithTries(1))
		must.OK(m, servers.Await("redsync takes the lock", func() bool { return other.Lock() == nil }))
		_, _ = other.Unlock()
	}},
	{"holder paused", "fencelock", "redsync", func(m *masters, _ *fencelock.Client, rs *redsync.Redsync, name string) {
		g := m.mortalGo()
		g.Must("a", "LOCK", "lock", name)
		resume := g.Pause()
		other := rs.NewMutex(name, redsync.WithExpiry(long), redsync.WithTries(1))
		must.OK(m, servers.Await("redsync takes the lock", func() bool { return other.Lock() == nil }))
		resume()
		lostInAPause(m, g, "a", "lock", name)
		if ok, err := other.Unlock(); !ok || err != nil {
			m.Errorf("redsync's unlock: %v, %v", ok, err)
		}
	}},
	{"renewed", "fencelock", "redsync", func(m *masters, locks *fencelock.Client, rs *redsync.Redsync, name string) {
		l, err := locks.Mutex(name).Lock(m.Context())
		must.OK(m, err)
		end := time.Now().Add(ttl + ttl/2)
		for time.Now().Before(end) {
			if rs.NewMutex(name, redsync.WithTries(1)).Lock() == nil {
				m.Fatal("redsync took the lock of a holder that renews")
			}
			time.Sleep(100 * time.Millisecond)
		}
		must.OK(m, l.Err())
		must.OK(m, l.Unlock(m.Context()))
	}},
	{"one server down", "fencelock", "redsync", func(m *masters, locks *fencelock.Client, rs *redsync.Redsync, name string) {
		m.servers[2].Kill()
		l, err := locks.Mutex(name).Lock(m.Context())
		must.OK(m, err)
		other := rs.NewMutex(name, redsync.WithExpiry(time.Minute), redsync.WithTries(1))
		if err := other.Lock(); err == nil {
			m.Error("redsync took the lock beside fencelock")
		}
		must.OK(m, l.Unlock(m.Context()))
		must.OK(m, servers.Await("redsync takes the lock", func() bool { return other.Lock() == nil }))
		if _, err := locks.Mutex(name).TryLock(m.Context()); !errors.Is(err, fencelock.ErrBusy) {
			m.Errorf("TryLock beside redsync: %v", err)
		}
		_, _ = other.Unlock()
		must.OK(m, m.servers[2].Start())
	}},
}

// TestRedlock shares locks over three servers with redsync.
func TestRedlock(t *testing.T) {
	m := startMasters(t, 3)
	locks, rs := m.locks(), m.redsync()
	for i, c := range redlock {
		t.Run(c.what+" by "+c.holder, func(t *testing.T) {
			if testing.Short() && c.what == "renewed" {
				t.Skip("it waits for the end of a lease")
			}
			results.noteTest(t, row{redlockTitle, c.what, c.holder, c.waiter}, redsyncVersion)
			of := &masters{t, m.servers}
			c.do(of, locks, rs, fmt.Sprint("redlock/", i))
		})
	}
}

// TestMixedRedlockFleet: processes with redsync and with fencelock compete on one server, and over
// three. No two hold a lock at the same time.
func TestMixedRedlockFleet(t *testing.T) {
	byHand(t)
	for n, title := range map[int]string{1: "redsync on one server", 3: redlockTitle} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			mixedRedlock(t, n, title)
		})
	}
}

func mixedRedlock(t *testing.T, n int, title string) {
	m := startMasters(t, n)
	f := &mixedFleet{T: t, history: &history{t: t, until: time.Now().Add(*torture)}, kind: "lock", names: []string{"a", "b"}}
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() {
			locks := m.locks()
			for !f.over() {
				ctx, cancel := context.WithTimeout(t.Context(), ttl)
				f.work(ctx, fmt.Sprint("go", i), locks)
				cancel()
			}
		})
		all.Go(func() {
			rs := m.redsync()
			for !f.over() {
				f.syncs(fmt.Sprint("redsync", i), rs)
			}
		})
	}
	all.Wait()
	f.report(title)
}

// syncs holds a lock for a moment, with redsync. What it does after the end of its lease counts for
// nothing.
func (f *mixedFleet) syncs(who string, rs *redsync.Redsync) {
	name, _ := f.pick()
	l := rs.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(5))
	if l.Lock() != nil {
		return
	}
	from := time.Now()
	time.Sleep(rand.N(3 * time.Millisecond))
	if until := time.Now(); until.Before(l.Until()) {
		f.note(fleet.Hold{Who: who, Name: name, From: from, Until: until})
	}
	_, _ = l.Unlock()
	time.Sleep(rand.N(20 * time.Millisecond)) // it polls, and would starve
}
