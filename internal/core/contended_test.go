// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

// closed reports whether the channel of Contended is closed when everything has come to rest.
func closed(wanted <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-wanted:
		return true
	default:
		return false
	}
}

// wantContended fails the test unless the channel is closed within a time.
func wantContended(t *testing.T, wanted <-chan struct{}, within time.Duration) {
	t.Helper()
	if closed(wanted) {
		return
	}
	select {
	case <-wanted:
	case <-time.After(within):
		t.Fatalf("Contended is not closed after %v", within)
	}
}

func TestContendedIsClosedByAnotherProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := tap(newStore())
		c, other := newClient(t, st, nil), newClient(t, st, nil)
		l := lock(t, c, "x")
		wanted := l.Contended()
		if closed(wanted) {
			t.Fatal("Contended is closed before another process waits")
		}
		if calls := st.Sent(faultstore.Attempt); len(calls) != 2 || calls[1].Seq != calls[0].Seq {
			t.Errorf("attempts: %+v; want that of the lock, and the same claim again", calls)
		}
		next := start(ctxb, other.Mutex("x"))
		if !closed(wanted) || !closed(l.Contended()) {
			t.Error("another process waits, and Contended is not closed")
		}
		unlock(t, l)
		unlock(t, next.wait(t, time.Second))
	})
}

// Nothing is sent and nothing is kept for a lease whose Contended is not called.
func TestLeaseThatIsNotAskedForContendedCostsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := tap(newStore())
		c := newClient(t, st, nil)
		l := lock(t, c, "x")
		synctest.Wait()
		if n := len(st.Sent(faultstore.Attempt)); n != 1 || coreOf(c).Watches() != 0 {
			t.Errorf("%d attempts and %d watches; want one and none", n, coreOf(c).Watches())
		}
		unlock(t, l)
	})
}

func TestContendedOfAWaiterThatCameBefore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c, other := newClient(t, store, nil), newClient(t, store, nil)
		l := lock(t, c, "x")
		next := start(ctxb, other.Mutex("x"))
		if !closed(l.Contended()) {
			t.Error("another process waits, and Contended is not closed")
		}
		unlock(t, l)
		unlock(t, next.wait(t, time.Second))
	})
}

// A goroutine of the same client is not known to the store, and on a store without
// notices it is the only one.
func TestContendedIsClosedByALocalWaiter(t *testing.T) {
	for name, opts := range map[string]*memstore.Options{"notices": nil, "no notices": {NoQueue: true}} {
		for _, before := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					c := newClient(t, memstore.New(opts), nil)
					l := lock(t, c, "x")
					var wanted <-chan struct{}
					if !before {
						if wanted = l.Contended(); closed(wanted) {
							t.Fatal("Contended is closed before a goroutine waits")
						}
					}
					next := start(ctxb, c.Mutex("x"))
					if before {
						wanted = l.Contended()
					}
					if !closed(wanted) {
						t.Error("a goroutine of the client waits, and Contended is not closed")
					}
					unlock(t, l)
					got := next.wait(t, time.Second)
					if closed(got.Contended()) {
						t.Error("the waiter got the lock, no other waits, and its Contended is closed")
					}
					unlock(t, got)
				})
			})
		}
	}
}

func TestContendedAtTheNextRenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memstore.New(&memstore.Options{NoPush: true})
		c, other := newClient(t, store, nil), newClient(t, store, nil)
		l := lock(t, c, "x")
		wanted := l.Contended()
		next := start(ctxb, other.Mutex("x"))
		wantContended(t, wanted, renewal)
		unlock(t, l)
		unlock(t, next.wait(t, ttl))
	})
}

func TestContendedWithoutNotices(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := tap(memstore.New(&memstore.Options{NoQueue: true}))
		c, other := newClient(t, st, nil), newClient(t, st, nil)
		l := lock(t, c, "x")
		wanted := l.Contended()
		synctest.Wait()
		if n := len(st.Sent(faultstore.Attempt)); n != 1 {
			t.Errorf("%d attempts; want one, because the store has no notices", n)
		}
		next := start(ctxb, other.Mutex("x"))
		time.Sleep(2 * ttl)
		if closed(wanted) {
			t.Error("Contended is closed on a store that knows of no waiter")
		}
		unlock(t, l)
		unlock(t, next.wait(t, ttl))
	})
}

func TestTryLockDoesNotCloseContended(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c, other := newClient(t, store, nil), newClient(t, store, nil)
		l := lock(t, c, "x")
		wanted := l.Contended()
		_, err := other.Mutex("x").TryLock(ctxb)
		wantIs(t, "TryLock", err, fencelock.ErrBusy)
		if closed(wanted) {
			t.Error("a TryLock closed Contended")
		}
		unlock(t, l)
	})
}

// Every reader stands in the way of a writer.
func TestContendedOfReaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c, other := newClient(t, store, nil), newClient(t, store, nil)
		a, err := c.RWMutex("x").RLock(ctxb)
		must.OK(t, err)
		b, err := other.RWMutex("x").RLock(ctxb)
		must.OK(t, err)
		wantedA, wantedB := a.Contended(), b.Contended()
		next := start(ctxb, newClient(t, store, nil).Mutex("x"))
		if !closed(wantedA) || !closed(wantedB) {
			t.Error("a writer waits for two readers, and not both are notified")
		}
		unlock(t, a)
		unlock(t, b)
		unlock(t, next.wait(t, time.Second))
	})
}

// The store notifies a session once; the lease that the grant is handed to has the
// other process behind it as well.
func TestLeaseThatIsHandedOffIsContended(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c, other := newClient(t, store, nil), newClient(t, store, nil)
		l := lock(t, c, "x")
		l.Contended()
		far := start(ctxb, other.Mutex("x"))
		near := start(ctxb, c.Mutex("x"))
		unlock(t, l)
		got := near.wait(t, time.Second)
		if got.Token().Base() != l.Token().Base() {
			t.Fatal("the lock was not handed off")
		}
		if !closed(got.Contended()) {
			t.Error("another process waits, and Contended is not closed after a handoff")
		}
		unlock(t, got)
		unlock(t, far.wait(t, time.Second))
	})
}

func TestContendedSurvivesADataLoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memstore.New(&memstore.Options{Grace: true, MaxTTL: ttl})
		c, other := newClient(t, store, nil), newClient(t, store, nil)
		l := lock(t, c, "x")
		wanted := l.Contended()
		synctest.Wait()
		store.Reset()
		time.Sleep(2 * ttl)
		next := start(ctxb, other.Mutex("x"))
		if !closed(wanted) {
			t.Error("another process waits, and Contended is not closed after a data loss")
		}
		unlock(t, l)
		unlock(t, next.wait(t, time.Second))
	})
}

// The request for notices is repeated until the store answers it.
func TestLostRequestForNoticesIsRepeated(t *testing.T) {
	for _, fault := range []string{`on(attempt, nth(2, lose(request)))`, `on(attempt, nth(2, lose(reply)))`, `on(attempt, nth(2, refuse))`} {
		t.Run(fault, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newStore()
				c, other := newClient(t, bent(t, m, fault), nil), newClient(t, m, nil)
				l := lock(t, c, "x")
				wanted := l.Contended()
				next := start(ctxb, other.Mutex("x"))
				wantContended(t, wanted, ttl)
				unlock(t, l)
				unlock(t, next.wait(t, time.Second))
				wantClaims(t, m, "x", 0, 0)
			})
		})
	}
}

// An unlock right after Contended waits for the store's answer: a tombstone for each such lease
// would stay as long as the session.
func TestUnlockAwaitsTheRequestForNotices(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := tap(newStore())
		st.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			time.Sleep(time.Millisecond)
			return next(ctx, c)
		}
		c := newClient(t, st, nil)
		for range 3 {
			l := lock(t, c, "x")
			l.Contended()
			unlock(t, l)
		}
		for _, w := range st.Sent(faultstore.Withdraw) {
			if w.Tombstone {
				t.Error("an unlock right after Contended leaves a tombstone")
			}
		}
	})
}

// The request for notices is an attempt: it must not bring a claim back that was
// unlocked in between.
func TestLateRequestForNoticesIsNotGranted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		st := tap(m)
		hold, n := make(chan struct{}), 0
		st.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			if n++; n == 2 {
				<-hold
			}
			return next(context.WithoutCancel(ctx), c)
		}
		c := newClient(t, st, nil)
		l := lock(t, c, "x")
		l.Contended()
		synctest.Wait()
		unlock(t, l)
		close(hold)
		wantClaims(t, m, "x", 0, 0)
		if calls := st.Sent(faultstore.Withdraw); len(calls) != 1 || !calls[0].Tombstone {
			t.Errorf("withdrawals: %+v; want one with a tombstone", calls)
		}
		l = lock(t, c, "x")
		l.Contended()
		synctest.Wait()
		unlock(t, l)
		if calls := st.Sent(faultstore.Withdraw); calls[1].Tombstone {
			t.Error("an answered request for notices leaves a tombstone")
		}
	})
}

// A notice may come before the answer to the attempt, after the end of the lease, twice,
// and about a claim that the client never made.
func TestNoticeMayComeAtAnyTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := tap(newStore())
		var notify func(uint64)
		st.OnOpen = func(ctx context.Context, req driver.OpenRequest, next locktest.OpenFunc) (driver.Session, driver.Renewal, error) {
			notify = req.Contended
			notify(1)
			return next(ctx, req)
		}
		st.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			notify(c.Seq)
			return next(ctx, c)
		}
		c := newClient(t, st, nil)
		l := lock(t, c, "x")
		if closed(coreLease(l).Context().Done()) {
			t.Error("a notice ended the lease")
		}
		wanted := l.Contended()
		if !closed(wanted) {
			t.Error("the notice that came before the answer was dropped")
		}
		seq := st.Sent(faultstore.Attempt)[0].Seq
		notify(seq)
		notify(seq + 1)
		unlock(t, l)
		notify(seq)
		if err := c.Close(ctxb); err != nil {
			t.Error(err)
		}
		notify(seq)
	})
}

func TestContendedEndsWithItsLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c, other := newClient(t, store, nil), newClient(t, store, nil)
		l := lock(t, c, "x")
		wanted := l.Contended()
		synctest.Wait()
		unlock(t, l)
		next := lock(t, other, "x")
		after := start(ctxb, c.Mutex("x"))
		if closed(wanted) || l.Contended() != nil {
			t.Error("the Contended of an ended lease is closed, or there is a new one")
		}
		if n := coreOf(c).Watches(); n != 0 {
			t.Errorf("%d watches are kept after the unlock", n)
		}
		unlock(t, next)
		l = after.wait(t, time.Second)
		l.Contended()
		synctest.Wait()
		if err := c.Close(ctxb); err != nil {
			t.Error(err)
		}
		if l.Contended() != nil {
			t.Error("there is a Contended of a lease that Close ended")
		}
		if err := l.Unlock(ctxb); !errors.Is(err, fencelock.ErrClosed) {
			t.Errorf("Unlock: %v", err)
		}
	})
}
