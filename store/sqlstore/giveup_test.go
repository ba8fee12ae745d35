// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// queued is a plain claim that waits.
func queued(seq uint64, name string) *driver.Claim {
	c := plain(seq, name)
	c.Queue = true
	return c
}

// open opens a session for 50 s.
func open(t *testing.T, s driver.Store) driver.Session {
	t.Helper()
	ss, _, err := s.Open(ctxb, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 50 * time.Second})
	must.OK(t, err)
	return ss
}

// attempt makes a claim and checks what becomes of it.
func attempt(t *testing.T, ss driver.Session, c *driver.Claim, want driver.State) driver.Outcome {
	t.Helper()
	out, err := ss.Attempt(ctxb, c)
	if err != nil || out.State != want {
		t.Fatalf("claim %d: %+v, %v; want %v", c.Seq, out, err, want)
	}
	return out
}

// granted waits until a claim is granted.
func granted(t *testing.T, ss driver.Session, c *driver.Claim) {
	t.Helper()
	eventually(t, "the grant", func() bool {
		out, err := ss.Attempt(ctxb, c)
		return err == nil && out.State == driver.Granted
	})
}

// withdraw withdraws a claim and checks what was found.
func withdraw(t *testing.T, ss driver.Session, w driver.Withdrawal, want driver.Removed) {
	t.Helper()
	if found, err := ss.Withdraw(ctxb, w); err != nil || found != want {
		t.Errorf("withdrawal %+v found %v, %v; want %v", w, found, err, want)
	}
}

// counting returns a store on new tables, and what counts its requests since the last call.
func (k kind) counting(t *testing.T, server *servers.Server) (*sqlstore.Store, func() int64) {
	t.Helper()
	p, err := servers.NewProxy(server.Addr)
	must.OK(t, err)
	t.Cleanup(p.Close)
	db := k.connect(t, p.Port)
	db.SetMaxOpenConns(1) // each request is a packet then, and none is for another
	opts := k.space(t, db)
	var requests atomic.Int64
	p.Filter(func(_ int, toServer bool, _ []byte) bool {
		if toServer {
			requests.Add(1)
		}
		return true
	})
	return k.store(t, db, &opts), func() int64 { return requests.Swap(0) }
}

// TestHandoffIsTwoStatements: of a lock that is contended, one to queue and one to release.
// MariaDB and MySQL need another one to read where the claim stands.
func TestHandoffIsTwoStatements(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		s, requests := k.counting(t, server)
		one, two := open(t, s), open(t, s)
		attempt(t, one, queued(1, "x"), driver.Granted)
		most := map[bool]int64{true: 2, false: 3}[k.dialect == sqlstore.PostgreSQL]
		for seq := uint64(1); seq <= 4; seq++ {
			requests()
			attempt(t, two, queued(seq+1, "x"), driver.Queued)
			withdraw(t, one, driver.Withdrawal{Seq: seq, Name: "x"}, driver.WasGranted)
			if n := requests(); n != most && seq > 2 { // what is prepared is prepared then
				t.Errorf("handoff %d was %d requests, want %d", seq, n, most)
			}
			attempt(t, two, queued(seq+1, "x"), driver.Granted) // it is noticed by another attempt
			one, two = two, one
		}
	})
}

// TestWaitingClaimIsAttemptedAgainByOneStatement: while its holder lives, however many wait. When
// the holder's session has ended, the attempt grants.
func TestWaitingClaimIsAttemptedAgainByOneStatement(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		s, requests := k.counting(t, server)
		holder, first, next := open(t, s), open(t, s), open(t, s)
		attempt(t, holder, plain(1, "x"), driver.Granted)
		attempt(t, first, queued(1, "x"), driver.Queued)
		attempt(t, next, queued(1, "x"), driver.Queued)
		attempt(t, next, queued(1, "x"), driver.Queued) // what is prepared is prepared now
		requests()
		if out := attempt(t, next, queued(1, "x"), driver.Queued); out.Position != 1 || len(out.Holders) != 1 {
			t.Errorf("the claim is at %d behind %v", out.Position, out.Holders)
		}
		if n := requests(); n != 1 {
			t.Errorf("another attempt was %d requests, want 1", n)
		}
		withdraw(t, first, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasQueued)
		must.OK(t, holder.Close(ctxb))
		attempt(t, next, queued(1, "x"), driver.Granted)
	})
}

// TestGivingUpIsOneStatement: a waiter that gives up sends one statement, which no other
// process can make it repeat. Those behind it stay in order.
func TestGivingUpIsOneStatement(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		s, requests := k.counting(t, server)
		holder, first, next, last := open(t, s), open(t, s), open(t, s), open(t, s)
		attempt(t, holder, plain(1, "x"), driver.Granted)
		attempt(t, first, queued(1, "x"), driver.Queued)
		withdraw(t, first, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasQueued) // what is prepared is prepared now
		attempt(t, first, queued(2, "x"), driver.Queued)
		attempt(t, next, queued(1, "x"), driver.Queued)
		attempt(t, last, queued(1, "x"), driver.Queued)
		requests()
		withdraw(t, first, driver.Withdrawal{Seq: 2, Name: "x"}, driver.WasQueued)
		if n := requests(); n != 1 {
			t.Errorf("a waiter that gave up sent %d requests, want 1", n)
		}
		withdraw(t, last, driver.Withdrawal{Seq: 1, Name: "x", Tombstone: true}, driver.WasQueued)
		if n := requests(); n != 1 {
			t.Errorf("the second waiter that gave up sent %d requests, want 1", n)
		}
		attempt(t, last, queued(1, "x"), driver.Absent) // it has a tombstone
		withdraw(t, holder, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
		attempt(t, next, queued(1, "x"), driver.Granted)
	})
}

// TestGivingUpLetsOthersIn: the first in the queue gives up. The readers behind it, which
// waited for it and not for the holder, are granted by that.
func TestGivingUpLetsOthersIn(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		s := k.store(t, db, &opts)
		reader := func(seq uint64) *driver.Claim {
			c := queued(seq, "x")
			c.Terms.Mode = driver.Shared
			return c
		}
		holder, writer, other := open(t, s), open(t, s), open(t, s)
		attempt(t, holder, reader(1), driver.Granted)
		attempt(t, writer, queued(1, "x"), driver.Queued)
		attempt(t, other, reader(1), driver.Queued)
		withdraw(t, writer, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasQueued)
		ctx, cancel := context.WithTimeout(ctxb, time.Minute)
		defer cancel()
		if out, err := other.Await(ctx, reader(1)); err != nil || out.State != driver.Granted {
			t.Errorf("the reader behind it got %+v, %v", out, err)
		}
	})
}

// TestManyGiveUpAtOnce: waiters that give up at the same moment leave nothing behind, and the
// lock goes to no claim that no caller waits for.
func TestManyGiveUpAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		const waiters = 48
		opts := k.space(t, k.connect(t, server.Port))
		s := k.store(t, k.connect(t, server.Port), &opts)
		holder := lock(t, client(t, s, 50*time.Second), "x")
		ctx, giveUp := context.WithCancel(ctxb)
		defer giveUp()
		var wg sync.WaitGroup
		for range waiters {
			c := client(t, s, 50*time.Second)
			wg.Go(func() {
				if l, err := c.Mutex("x").Lock(ctx); err == nil {
					t.Errorf("granted: %v", l)
				}
			})
		}
		waiting := func(n int) {
			t.Helper()
			eventually(t, "that the right number waits", func() bool {
				// pgx may fail a call with the timeout of another one, which was canceled on the same connection after a slow write.
				st, err := inspectSoon(s, "x")
				must.OK(t, err)
				return st.Waiting == n && len(st.Holders) == 1
			})
		}
		waiting(waiters)
		giveUp()
		wg.Wait()
		waiting(0)
		must.OK(t, holder.Unlock(ctxb))
		if next := lock(t, client(t, s, 50*time.Second), "x"); next.Token() != holder.Token()+driver.TokenStep {
			t.Errorf("token %v after %v: a claim of no caller was granted in between", next.Token(), holder.Token())
		}
	})
}

// patience is how long a test waits for what must come. It ends well before the time of the test
// binary: the code that a mutant breaks then fails its test by name, and does not end the binary
// together with all other tests.
func patience(t *testing.T) time.Duration {
	t.Helper()
	if end, limited := t.Deadline(); limited {
		return min(time.Minute, time.Until(end)/3)
	}
	return time.Minute
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience(t)); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come true", what)
		}
	}
}

// soon waits until a channel is closed. A test that waits for what does not come would take the time of all others.
func soon(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience(t)):
		t.Fatalf("%s did not come", what)
	}
}

// TestManyReadersReleaseAtOnce: the releases of readers, which each read the row and write it
// back, do not make each other repeat that over and over.
func TestManyReadersReleaseAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		const readers = 80
		p, err := servers.NewProxy(server.Addr)
		must.OK(t, err)
		t.Cleanup(p.Close)
		db := k.connect(t, p.Port)
		db.SetMaxOpenConns(readers)
		db.SetMaxIdleConns(readers)
		k.opts.MaxTTL = 10 * time.Minute // to open so many sessions takes long on a slow machine
		opts := k.space(t, db)
		s := k.store(t, db, &opts)
		var sessions []driver.Session
		for range readers {
			ss, _, err := s.Open(ctxb, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: k.opts.MaxTTL})
			must.OK(t, err)
			c := plain(1, "x")
			c.Terms.Mode = driver.Shared
			attempt(t, ss, c, driver.Granted)
			sessions = append(sessions, ss)
		}
		var requests atomic.Int64
		p.Filter(func(_ int, toServer bool, _ []byte) bool {
			if toServer {
				requests.Add(1)
			}
			return true
		})
		var wg sync.WaitGroup
		for _, ss := range sessions {
			wg.Go(func() { withdraw(t, ss, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted) })
		}
		wg.Wait()
		t.Logf("%d requests", requests.Load())
		if n := requests.Load(); n > 40*readers { // about 15, and 90 if all start again each time
			t.Errorf("%d releases were %d requests", readers, n)
		}
	})
}
