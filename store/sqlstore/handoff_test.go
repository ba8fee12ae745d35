// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// ringing runs a test on each server that has handoff locks, beside other tests.
func ringing(t *testing.T, f func(t *testing.T, k kind, server *servers.Server)) {
	t.Parallel()
	for _, k := range []kind{onMariaDB, onMySQL} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			f(t, k, need(t, k.start))
		})
	}
}

// crowd is a contended lock: its holder came from the queue, so it has a handoff lock.
type crowd struct {
	k      kind
	server *servers.Server
	admin  *sql.DB
	opts   sqlstore.Options
	holder driver.Session
}

func newCrowd(t *testing.T, k kind, server *servers.Server, names ...string) *crowd {
	t.Helper()
	c := &crowd{k: k, server: server, admin: k.connect(t, server.Port)}
	c.opts = k.space(t, c.admin)
	first := open(t, k.store(t, k.connect(t, server.Port), &c.opts))
	s := c.store(t, k.connect(t, server.Port))
	c.holder = open(t, s)
	for i, name := range names {
		attempt(t, first, plain(uint64(i)+1, name), driver.Granted)
		makeHandoffLock(t, s)
		attempt(t, c.holder, queued(uint64(i)+1, name), driver.Queued)
		withdraw(t, first, driver.Withdrawal{Seq: uint64(i) + 1, Name: name}, driver.WasGranted)
		attempt(t, c.holder, queued(uint64(i)+1, name), driver.Granted)
		if sqlstore.HandoffLockOf(c.holder, uint64(i)+1) == "" {
			t.Fatalf("the holder of %s has no handoff lock", name)
		}
	}
	return c
}

// store returns a store of another process.
func (c *crowd) store(t *testing.T, db *sql.DB) *sqlstore.Store {
	t.Helper()
	return c.k.store(t, db, &c.opts)
}

// waiter returns a session whose claim 1 for a lock is queued, and has a handoff lock.
func (c *crowd) waiter(t *testing.T, s *sqlstore.Store, name string) driver.Session {
	t.Helper()
	ss := open(t, s)
	makeHandoffLock(t, s)
	attempt(t, ss, queued(1, name), driver.Queued)
	if sqlstore.HandoffLockOf(ss, 1) == "" {
		t.Fatal("the waiter has no handoff lock")
	}
	return ss
}

// makeHandoffLock waits until a store has a handoff lock for the next claim: a claim waits only a moment for
// one.
func makeHandoffLock(t *testing.T, s *sqlstore.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctxb, patience(t))
	defer cancel()
	must.OK(t, sqlstore.MakeHandoffLock(ctx, s))
}

// release lets the holder release its claim.
func (c *crowd) release(t *testing.T, seq uint64, name string) {
	t.Helper()
	withdraw(t, c.holder, driver.Withdrawal{Seq: seq, Name: name}, driver.WasGranted)
}

// held counts the connections of the server that have a named lock, 0 or 1.
func (c *crowd) held(t *testing.T, named string) (n int) {
	t.Helper()
	must.OK(t, c.admin.QueryRow("SELECT IF(IS_FREE_LOCK(?), 0, 1)", named).Scan(&n))
	return n
}

// kill ends the connection that has a named lock.
func (c *crowd) kill(t *testing.T, named string) {
	t.Helper()
	var id string
	must.OK(t, c.admin.QueryRow("SELECT IS_USED_LOCK(?)", named).Scan(&id))
	must.OK(t, exec(c.admin, "KILL "+id))
}

// waitsLong reports whether the connection that has a named lock waits for another, and does not read.
func (c *crowd) waitsLong(t *testing.T, named string) bool {
	t.Helper()
	var n int
	must.OK(t, c.admin.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE ? AND ID = IS_USED_LOCK(?)",
		"%fencelock waitHandoffLock *%", named).Scan(&n))
	return n > 0
}

// awaited waits in the background for the grant of claim 1, as the core does.
type awaited struct {
	cancel context.CancelFunc
	out    chan driver.Outcome
}

func await(t *testing.T, ss driver.Session, name string) *awaited {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctxb, patience(t))
	a := &awaited{cancel, make(chan driver.Outcome, 1)}
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
	wg.Go(func() {
		out, err := ss.Await(ctx, queued(1, name))
		if err != nil && ctx.Err() != context.Canceled {
			t.Errorf("await of %s: %v", name, err)
		}
		a.out <- out
	})
	return a
}

func (a *awaited) granted(t *testing.T) {
	t.Helper()
	if out := <-a.out; out.State != driver.Granted {
		t.Errorf("the waiter got %+v, want the lock", out)
	}
}

// TestHandoffLockWakesTheNext: a claim has its handoff lock until it is gone, and the claim behind it is
// granted then, one after the other.
func TestHandoffLockWakesTheNext(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x")
		second := c.waiter(t, c.store(t, k.connect(t, server.Port)), "x")
		third := c.waiter(t, c.store(t, k.connect(t, server.Port)), "x")
		two, three := await(t, second, "x"), await(t, third, "x")
		handoffLocks := []string{sqlstore.HandoffLockOf(c.holder, 1), sqlstore.HandoffLockOf(second, 1), sqlstore.HandoffLockOf(third, 1)}
		for i, handoffLock := range handoffLocks {
			if c.held(t, handoffLock) != 1 {
				t.Errorf("the server does not know the handoff lock of claim %d", i)
			}
		}
		c.release(t, 1, "x")
		two.granted(t)
		withdraw(t, second, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
		three.granted(t)
		must.OK(t, third.Close(ctxb))
		eventually(t, "that no handoff lock is left", func() bool {
			return c.held(t, handoffLocks[0])+c.held(t, handoffLocks[1])+c.held(t, handoffLocks[2]) == 0
		})
	})
}

// TestHandoffLockOfAClaimInBetween: the claim before a waiter gives up. The waiter waits for the
// claim before that one then.
func TestHandoffLockOfAClaimInBetween(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x")
		second := c.waiter(t, c.store(t, k.connect(t, server.Port)), "x")
		third := await(t, c.waiter(t, c.store(t, k.connect(t, server.Port)), "x"), "x")
		withdraw(t, second, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasQueued)
		c.release(t, 1, "x")
		third.granted(t)
	})
}

// TestHandoffLockAfterALostReply: a claim whose reply was lost is made again, and waits in the way
// that the row has for it.
func TestHandoffLockAfterALostReply(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		const word = "the-lost-one"
		c := newCrowd(t, k, server, word)
		p := proxyOf(t, server)
		s := c.store(t, k.connect(t, p.Port))
		ss := open(t, s)
		attempt(t, ss, queued(7, word), driver.Queued) // what is prepared is prepared now
		withdraw(t, ss, driver.Withdrawal{Seq: 7, Name: word}, driver.WasQueued)
		(&through{proxy: p}).loseReply(word)
		if out, err := ss.Attempt(ctxb, queued(1, word)); err == nil {
			t.Fatalf("the reply was not lost: %+v", out)
		}
		attempt(t, ss, queued(1, word), driver.Queued)
		a := await(t, ss, word)
		c.release(t, 1, word)
		a.granted(t)
	})
}

// TestBreakWakesAClaimWithAHandoffLock: a lock is granted by an operator's break, which frees no handoff lock.
func TestBreakWakesAClaimWithAHandoffLock(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x")
		s := c.store(t, k.connect(t, server.Port))
		a := await(t, c.waiter(t, s, "x"), "x")
		st, err := s.Inspect(ctxb, "x")
		must.OK(t, err)
		if _, err := s.Break(ctxb, "x", st.Holders[0].Token); err != nil {
			t.Fatal(err)
		}
		a.granted(t)
	})
}

// TestHandoffLockOfADeadConnection: the connection of the holder's handoff lock is ended. The holder unlocks as
// if nothing had happened, and the claim behind it is granted.
func TestHandoffLockOfADeadConnection(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x")
		ss := c.waiter(t, c.store(t, k.connect(t, server.Port)), "x")
		handoffLock := sqlstore.HandoffLockOf(c.holder, 1)
		c.kill(t, handoffLock)
		eventually(t, "that the handoff lock is free", func() bool { return c.held(t, handoffLock) == 0 })
		a := await(t, ss, "x")
		c.release(t, 1, "x")
		a.granted(t)
	})
}

// TestHandoffLockOfAWaiterDies: the connection on which a claim waits is ended. It is granted anyway.
func TestHandoffLockOfAWaiterDies(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x")
		ss := c.waiter(t, c.store(t, k.connect(t, server.Port)), "x")
		a := await(t, ss, "x")
		c.kill(t, sqlstore.HandoffLockOf(ss, 1))
		eventually(t, "that the claim has no handoff lock", func() bool { return sqlstore.HandoffLockOf(ss, 1) == "" })
		c.release(t, 1, "x")
		a.granted(t)
	})
}

// TestWaiterThatLostItsHandoffLockGetsAnother: the connection on which a claim waits is ended. The claim polls, and waits by
// another connection as soon as there is one. A claim that gives up before leaves nothing behind.
func TestWaiterThatLostItsHandoffLockGetsAnother(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x")
		s := c.store(t, k.connect(t, server.Port))
		ss, other := c.waiter(t, s, "x"), c.waiter(t, s, "x")
		a := await(t, ss, "x")
		gone := sqlstore.HandoffLockOf(ss, 1)
		c.kill(t, gone)
		c.kill(t, sqlstore.HandoffLockOf(other, 1))
		eventually(t, "that the claim waits by another handoff lock", func() bool {
			sqlstore.ForgiveHandoffLocks(s)
			_, waits := sqlstore.WaitsFor(ss, 1)
			handoffLock := sqlstore.HandoffLockOf(ss, 1)
			return handoffLock != "" && handoffLock != gone && waits == sqlstore.HandoffLockOf(c.holder, 1)
		})
		b := await(t, other, "x")
		eventually(t, "that the other claim has lost its handoff lock", func() bool { return sqlstore.HandoffLockOf(other, 1) == "" })
		b.cancel()
		<-b.out
		withdraw(t, other, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasQueued)
		c.release(t, 1, "x")
		a.granted(t)
		withdraw(t, ss, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
		eventually(t, "that no claim has a handoff lock", func() bool {
			return sqlstore.HandoffLockOf(ss, 1) == "" && sqlstore.HandoffLockOf(other, 1) == "" && sqlstore.LostHandoffLocks(s) == 0
		})
	})
}

// TestHandoffLockIsTheLastStatement: the wait for a handoff lock also reads the row, after the handoff lock: a claim
// that is granted by it sends no statement more. A machine that is slow for a second lets a wait end
// before the release, so one handoff of ten decides.
func TestHandoffLockIsTheLastStatement(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		var more []int64
		for range 10 {
			n := statementsAfterHandoffLock(t, k, server)
			if n == 0 {
				return
			}
			more = append(more, n)
		}
		t.Errorf("statements after the wait for the handoff lock: %d", more)
	})
}

// statementsAfterHandoffLock counts what a waiter sends between its wait for a handoff lock and its grant.
func statementsAfterHandoffLock(t *testing.T, k kind, server *servers.Server) int64 {
	t.Helper()
	c := newCrowd(t, k, server, "x")
	p := proxyOf(t, server)
	ss := c.waiter(t, c.store(t, k.connect(t, p.Port)), "x")
	waits := make(chan struct{})
	var sent atomic.Int64 // after the text of the statement, its execution
	p.Filter(func(_ int, toServer bool, data []byte) bool {
		if toServer && (bytes.Contains(data, []byte("fencelock waitHandoffLock")) || sent.Load() > 0) && sent.Add(1) == 2 {
			close(waits)
		}
		return true
	})
	a := await(t, ss, "x")
	soon(t, "the wait for the handoff lock", waits)
	c.release(t, 1, "x")
	a.granted(t)
	return sent.Load() - 2
}

// TestHandoffLockOfAClaimThatGaveUp: its connection may wait for long. The next claim of the process
// does not wait for that connection, and gets another one.
func TestHandoffLockOfAClaimThatGaveUp(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x")
		s := c.store(t, k.connect(t, server.Port))
		ss := c.waiter(t, s, "x")
		handoffLock := sqlstore.HandoffLockOf(ss, 1)
		a := await(t, ss, "x")
		eventually(t, "that the claim waits", func() bool {
			var n int
			must.OK(t, c.admin.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE ? AND ID = IS_USED_LOCK(?)", "%waitHandoffLock%", handoffLock).Scan(&n))
			return n > 0
		})
		a.cancel()
		<-a.out
		withdraw(t, ss, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasQueued)
		makeHandoffLock(t, s)
		attempt(t, ss, queued(2, "x"), driver.Queued)
		// On a slow machine the wait has ended by now, and the handoff lock serves the next claim.
		if n := sqlstore.HandoffLocks(s); n != 2 && c.held(t, handoffLock) == 1 || sqlstore.HandoffLockOf(ss, 2) == "" {
			t.Errorf("the next claim has handoff lock %q, and the store has %d", sqlstore.HandoffLockOf(ss, 2), n)
		}
		c.release(t, 1, "x")
		eventually(t, "that the handoff lock is free", func() bool { return c.held(t, handoffLock) == 0 })
	})
}
