// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// TestHandoffLocksKeepNothing: after many handoffs there are as many goroutines and connections as
// after a few. Not parallel: it counts all goroutines.
func TestHandoffLocksKeepNothing(t *testing.T) {
	for _, k := range []kind{onMariaDB, onMySQL} {
		t.Run(k.name, func(t *testing.T) {
			server := need(t, k.start)
			p := proxyOf(t, server)
			var connections sync.Map
			p.Filter(func(conn int, _ bool, _ []byte) bool {
				connections.Store(conn, true)
				return true
			})
			count := func() (n int) {
				connections.Range(func(any, any) bool { n++; return true })
				return n
			}
			c := newCrowd(t, k, server, "x")
			s := c.store(t, k.connect(t, p.Port))
			one, two := c.holder, open(t, s)
			makeHandoffLock(t, s)
			seq := uint64(1)
			ctx, cancel := context.WithTimeout(ctxb, 4*time.Minute)
			defer cancel()
			handoffs := func(n int) {
				for range n {
					attempt(t, two, queued(seq, "x"), driver.Queued)
					withdraw(t, one, driver.Withdrawal{Seq: seq, Name: "x"}, driver.WasGranted)
					if out, err := two.Await(ctx, queued(seq, "x")); err != nil || out.State != driver.Granted {
						t.Fatal(out, err)
					}
					attempt(t, one, queued(seq+1, "x"), driver.Queued)
					withdraw(t, two, driver.Withdrawal{Seq: seq, Name: "x"}, driver.WasGranted)
					seq++
					if out, err := one.Await(ctx, queued(seq, "x")); err != nil || out.State != driver.Granted {
						t.Fatal(out, err)
					}
				}
			}
			handoffs(20)
			goroutines, connected := runtime.NumGoroutine(), count()
			handoffs(100)
			if n := runtime.NumGoroutine(); n > goroutines+10 {
				t.Errorf("%d goroutines after 100 handoffs, %d before", n, goroutines)
			}
			if n := count(); n > connected+2 {
				t.Errorf("%d connections after 100 handoffs, %d before", n, connected)
			}
		})
	}
}

// TestHandoffLockBesideALockedRow: a process whose claim for x waits for a row that a foreign
// transaction has locked gets y, for which it waits by a handoff lock.
func TestHandoffLockBesideALockedRow(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x", "y")
		s := c.store(t, k.connect(t, server.Port))
		a := await(t, c.waiter(t, s, "y"), "y")
		lockRow(t, c.admin, c.opts.Prefix(), "x")
		ctx, cancel := context.WithCancel(ctxb)
		other := open(t, s)
		makeHandoffLock(t, s)
		sqlstore.SetPace(s, "x", 0, time.Millisecond) // it is contended, so the claim is queued first
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = other.Attempt(ctx, queued(1, "x")) })
		eventually(t, "that the claim for x has a handoff lock", func() bool { return sqlstore.HandoffLockOf(other, 1) != "" })
		c.release(t, 2, "y")
		a.granted(t)
		cancel()
		wg.Wait()
	})
}

// TestHandoffLockOfACallerThatLeaves: the context of a caller ends while its claim waits. Other claims
// of the process keep their handoff locks, and so does the claim until it is withdrawn.
func TestHandoffLockOfACallerThatLeaves(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x", "y")
		s := c.store(t, k.connect(t, server.Port))
		one, two := c.waiter(t, s, "x"), c.waiter(t, s, "y")
		stays, leaves := await(t, one, "x"), await(t, two, "y")
		handoffLocks := []string{sqlstore.HandoffLockOf(one, 1), sqlstore.HandoffLockOf(two, 1)}
		leaves.cancel()
		<-leaves.out
		if sqlstore.HandoffLockOf(one, 1) != handoffLocks[0] || sqlstore.HandoffLockOf(two, 1) != handoffLocks[1] || c.held(t, handoffLocks[0])+c.held(t, handoffLocks[1]) != 2 {
			t.Error("a handoff lock is gone")
		}
		withdraw(t, two, driver.Withdrawal{Seq: 1, Name: "y"}, driver.WasQueued)
		c.release(t, 1, "x")
		stays.granted(t)
	})
}

// TestHandoffLockOfASilentConnection: the connection of a handoff lock gets no answer any more. Its claim is
// granted anyway, and the connection is closed.
func TestHandoffLockOfASilentConnection(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x")
		p := proxyOf(t, server)
		silent := make(chan struct{})
		t.Cleanup(func() { close(silent) })
		var handoffLock atomic.Int64
		s := c.store(t, k.connect(t, p.Port))
		ss := c.waiter(t, s, "x")
		waits := make(chan struct{})
		once := sync.OnceFunc(func() { close(waits) })
		p.Filter(func(conn int, toServer bool, data []byte) bool {
			if toServer && bytes.Contains(data, []byte("fencelock waitHandoffLock")) {
				handoffLock.Store(int64(conn))
				once()
			}
			if !toServer && handoffLock.Load() == int64(conn) {
				<-silent
			}
			return true
		})
		a, all := await(t, ss, "x"), sqlstore.HandoffLocks(s)
		soon(t, "the wait for the handoff lock", waits)
		c.release(t, 1, "x")
		a.granted(t)
		eventually(t, "that the connection is closed", func() bool { return sqlstore.HandoffLockOf(ss, 1) == "" && sqlstore.HandoffLocks(s) < all })
	})
}

// TestHandoffLocksOfAClosedStore: a store that is closed while a claim waits leaves no connection.
func TestHandoffLocksOfAClosedStore(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x")
		for range 8 { // what Close does not wait for may be done in time
			db := k.connect(t, server.Port)
			s := c.store(t, db)
			ss := c.waiter(t, s, "x")
			handoffLock := sqlstore.HandoffLockOf(ss, 1)
			a := await(t, ss, "x")
			a.cancel()
			<-a.out
			must.OK(t, s.Close())
			if n, used := sqlstore.Reserved(db), db.Stats().InUse; n != 0 || used != 0 {
				t.Fatalf("%d connections are kept, %d in use", n, used)
			}
			eventually(t, "that the server has closed it", func() bool { return c.held(t, handoffLock) == 0 })
		}
	})
}

// TestNoHandoffLocksWithPoll: Options.Poll takes no connection and no named lock.
func TestNoHandoffLocksWithPoll(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		k.opts.Poll = true
		opts := k.space(t, db)
		s := k.store(t, db, &opts)
		one, two := open(t, s), open(t, s)
		attempt(t, one, plain(1, "x"), driver.Granted)
		attempt(t, two, queued(1, "x"), driver.Queued)
		if n := sqlstore.Reserved(db); n != 0 || sqlstore.HandoffLockOf(two, 1) != "" {
			t.Errorf("a claim that polls has %v, and %d connections", sqlstore.HandoffLockOf(two, 1), n)
		}
		a := await(t, two, "x")
		withdraw(t, one, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
		a.granted(t)
	})
}

// TestHandoffLocksThatWaitForEachOther: the server answers one of two waits with a deadlock. The
// handoff locks stay.
func TestHandoffLocksThatWaitForEachOther(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		s := k.store(t, db, &opts)
		open(t, s)
		answers := -1
		eventually(t, "that there are two handoff locks", func() bool {
			answers = sqlstore.Deadlock(ctxb, s)
			return answers >= 0
		})
		if n := sqlstore.HandoffLocks(s); answers != 1 || n < 2 {
			t.Errorf("%d of 2 waits counted as a deadlock, and %d handoff locks are left", answers, n)
		}
	})
}

// TestHandoffLocksOfACutServer: all connections of a process are cut, as by a restart of the server. Its
// claim is granted anyway.
func TestHandoffLocksOfACutServer(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x")
		p := proxyOf(t, server)
		s := c.store(t, k.connect(t, p.Port))
		ss := c.waiter(t, s, "x")
		ctx, cancel := context.WithTimeout(ctxb, time.Minute)
		defer cancel()
		granted := make(chan error, 1)
		go func() {
			for {
				out, err := ss.Await(ctx, queued(1, "x"))
				if out.State == driver.Granted || ctx.Err() != nil {
					granted <- err
					return
				}
			}
		}()
		p.Cut()
		eventually(t, "that the claim has no handoff lock", func() bool { return sqlstore.HandoffLockOf(ss, 1) == "" })
		c.release(t, 1, "x")
		must.OK(t, <-granted)
	})
}

// TestWaitThatOutlivesItsClaimBefore: the claim before a waiter is gone, and the waiter is attempted again
// before it has read that its handoff lock is free. It waits for the claim that is before it now.
func TestWaitThatOutlivesItsClaimBefore(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x")
		second := c.waiter(t, c.store(t, k.connect(t, server.Port)), "x")
		third := c.waiter(t, c.store(t, k.connect(t, server.Port)), "x")
		handoffLock, holder := sqlstore.HandoffLockOf(second, 1), sqlstore.HandoffLockOf(c.holder, 1)
		waitsFor := func(want string) func() bool {
			return func() bool {
				_, waits := sqlstore.WaitsFor(third, 1)
				return waits == want
			}
		}
		a := await(t, third, "x")
		eventually(t, "that the third claim waits for the second", waitsFor(handoffLock))
		a.cancel()
		<-a.out
		withdraw(t, second, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasQueued)
		attempt(t, third, queued(1, "x"), driver.Queued)
		a = await(t, third, "x")
		eventually(t, "that the third claim waits for the holder", waitsFor(holder))
		c.release(t, 1, "x")
		a.granted(t)
	})
}

// TestIdleHandoffLockIsUsed: the connection of a handoff lock that has a claim and nothing to do is used, so that no
// server or proxy closes it for being idle.
func TestIdleHandoffLockIsUsed(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x")
		p := proxyOf(t, server)
		var used atomic.Int64
		p.Filter(func(_ int, toServer bool, data []byte) bool {
			if toServer && bytes.Contains(data, []byte("fencelock handoffLock */ DO 1")) {
				used.Add(1)
			}
			return true
		})
		s := c.store(t, k.connect(t, p.Port))
		sqlstore.TouchHandoffLocks(s, 10*time.Millisecond)
		ss := open(t, s)
		seq, handoffLock := uint64(0), ""
		eventually(t, "that a claim has a handoff lock", func() bool { // on a slow machine the first one may not be made in time
			if seq > 0 {
				withdraw(t, ss, driver.Withdrawal{Seq: seq, Name: "x"}, driver.WasQueued)
			}
			seq++
			sqlstore.ForgiveHandoffLocks(s)
			attempt(t, ss, queued(seq, "x"), driver.Queued)
			handoffLock = sqlstore.HandoffLockOf(ss, seq)
			return handoffLock != ""
		})
		before := used.Load()
		eventually(t, "that the connection is used", func() bool { return used.Load() >= before+3 })
		if sqlstore.HandoffLockOf(ss, seq) != handoffLock || c.held(t, handoffLock) != 1 {
			t.Errorf("the claim had handoff lock %q, and has %q", handoffLock, sqlstore.HandoffLockOf(ss, seq))
		}
		withdraw(t, ss, driver.Withdrawal{Seq: seq, Name: "x"}, driver.WasQueued)
		eventually(t, "that the handoff lock without a claim is closed", func() bool { return sqlstore.HandoffLocks(s) == 0 })
	})
}
