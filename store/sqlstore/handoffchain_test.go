// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// TestWaiterBehindADeadHandoffLock: the handoff lock of the claim before a waiter dies. The waiter waits for the handoff lock before
// that one, and polls when none is left.
func TestWaiterBehindADeadHandoffLock(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x")
		second := c.waiter(t, c.store(t, k.connect(t, server.Port)), "x")
		third := c.waiter(t, c.store(t, k.connect(t, server.Port)), "x")
		c.kill(t, sqlstore.HandoffLockOf(second, 1))
		two, three := await(t, second, "x"), await(t, third, "x")
		waitsFor := func(want string) func() bool {
			return func() bool {
				before, waits := sqlstore.WaitsFor(third, 1)
				return before == want && waits == want
			}
		}
		eventually(t, "that the third claim waits for the holder", waitsFor(sqlstore.HandoffLockOf(c.holder, 1)))
		attempt(t, third, queued(1, "x"), driver.Queued)
		if before, _ := sqlstore.WaitsFor(third, 1); before != sqlstore.HandoffLockOf(c.holder, 1) {
			t.Error("an attempt made the claim wait for the handoff lock that has died")
		}
		c.release(t, 1, "x")
		two.granted(t)
		eventually(t, "that the third claim polls", waitsFor(""))
		withdraw(t, second, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
		three.granted(t)
	})
}

// TestWaiterBehindAClaimWithoutAHandoffLock: a waiter waits for the handoff lock of the holder if the claim between
// them has none. That claim waits so, too, as soon as its process has a connection for it.
func TestWaiterBehindAClaimWithoutAHandoffLock(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x")
		db := k.connect(t, server.Port)
		db.SetMaxOpenConns(1)
		s := c.store(t, db)
		second := open(t, s)
		attempt(t, second, queued(1, "x"), driver.Queued)
		if sqlstore.HandoffLockOf(second, 1) != "" {
			t.Fatal("a handle of one connection has a handoff lock")
		}
		third := c.waiter(t, c.store(t, k.connect(t, server.Port)), "x")
		two, three := await(t, second, "x"), await(t, third, "x")
		waitsForHolder := func(ss driver.Session) func() bool {
			return func() bool {
				_, waits := sqlstore.WaitsFor(ss, 1)
				return waits == sqlstore.HandoffLockOf(c.holder, 1)
			}
		}
		eventually(t, "that the third claim waits for the holder", waitsForHolder(third))
		db.SetMaxOpenConns(4)
		makeHandoffLock(t, s)
		eventually(t, "that the second claim waits for the holder", waitsForHolder(second))
		c.release(t, 1, "x")
		two.granted(t)
		withdraw(t, second, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
		three.granted(t)
	})
}

// TestHandoffLockOfALongWaitThatIsLeft: a claim that waits for long is withdrawn. Its connection ends, and so its
// handoff lock is free though the claim before it stays.
func TestHandoffLockOfALongWaitThatIsLeft(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x")
		c.waiter(t, c.store(t, k.connect(t, server.Port)), "x")
		s := c.store(t, k.connect(t, server.Port))
		third := c.waiter(t, s, "x")
		handoffLock := sqlstore.HandoffLockOf(third, 1)
		a := await(t, third, "x")
		eventually(t, "that the claim waits for long", func() bool { return c.waitsLong(t, handoffLock) })
		a.cancel()
		<-a.out
		withdraw(t, third, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasQueued)
		eventually(t, "that the connection is gone", func() bool { return sqlstore.HandoffLocks(s) == 0 && c.held(t, handoffLock) == 0 })
		makeHandoffLock(t, s) // it did not count as a failure
		findings, err := s.Check(ctxb)
		must.OK(t, err)
		if has(findings, "handoff-locks") {
			t.Errorf("Check found %v", findings)
		}
	})
}

// TestChainOfWaits: the server refuses a wait at the end of a chain of 32. The claim waits for the handoff lock of a
// claim further to the front, and none polls.
func TestChainOfWaits(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x")
		var waiters []driver.Session
		var first *awaited
		for len(waiters) < 36 {
			s := c.store(t, k.connect(t, server.Port))
			for range sqlstore.MaxHandoffLocks {
				ss := c.waiter(t, s, "x")
				waiters = append(waiters, ss)
				if a := await(t, ss, "x"); first == nil {
					first = a
				}
				eventually(t, "that the claim waits", func() bool {
					_, waits := sqlstore.WaitsFor(ss, 1)
					return waits != ""
				})
			}
		}
		eventually(t, "that all wait, and one not for the claim before it", func() bool {
			all, skip := true, false
			for i, ss := range waiters {
				_, waits := sqlstore.WaitsFor(ss, 1)
				all = all && waits != ""
				skip = skip || i > 0 && waits != sqlstore.HandoffLockOf(waiters[i-1], 1)
			}
			return all && skip
		})
		c.release(t, 1, "x")
		first.granted(t)
	})
}
