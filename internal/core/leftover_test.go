// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
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

// TestLateAttemptOfALostLeaseIsNotGranted (K12): the withdrawal of a lease that was
// broken leaves a tombstone if an attempt of its claim may still arrive.
func TestLateAttemptOfALostLeaseIsNotGranted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c := newClient(t, bent(t, store, `on(attempt, nth(1, delay(1m, 0s)))`), nil)
		late := lock(t, c, "x") // the first attempt is late, the second is granted
		other := lock(t, c, "keeps the session")
		if _, err := store.Break(ctxb, "x", late.Token()); err != nil {
			t.Fatal(err)
		}
		ended(t, late.Context())
		time.Sleep(2 * time.Minute) // the late attempt has arrived
		wantClaims(t, store, "x", 0, 0)
		unlock(t, other)
	})
}

// TestSpentClaimsAreWithdrawn: a claim whose fixed lease was over before the answer came
// is withdrawn, so that the store can drop it.
func TestSpentClaimsAreWithdrawn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tp := tap(newStore())
		c := newClient(t, bent(t, tp, `on(attempt, delay(0s, 2s))`), nil)
		if _, err := c.Mutex("x", fencelock.MaxHold(time.Second)).Lock(ctxb); err == nil {
			t.Fatal("locked")
		}
		time.Sleep(time.Minute)
		if a, w := len(tp.Sent(faultstore.Attempt)), len(tp.Sent(faultstore.Withdraw)); w < a {
			t.Errorf("%d claims were granted and too late, %d of them withdrawn", a, w)
		}
	})
}

// TestClaimThatWasOverIsWithdrawn: the reply to an attempt was lost and its fixed lease
// is over. The claim is withdrawn, so that the store can drop it, and another is made.
func TestClaimThatWasOverIsWithdrawn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tp := tap(newStore())
		c := newClient(t, bent(t, tp, `on(attempt, nth(1, lose(reply)))`), nil)
		l := lock(t, c, "x", fencelock.MaxHold(time.Second))
		synctest.Wait()
		attempts, withdrawals := tp.Sent(faultstore.Attempt), tp.Sent(faultstore.Withdraw)
		if len(withdrawals) != 1 || withdrawals[0].Seq != attempts[0].Seq {
			t.Errorf("attempted %v, withdrawn %v; want the first claim withdrawn", attempts, withdrawals)
		}
		unlock(t, l)
	})
}

// TestMarkIsKeptFromALocalWaiter (K44): a lock that is kept is not passed to a waiter
// of the same client either.
func TestMarkIsKeptFromALocalWaiter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), nil)
		ctx, cancel := context.WithTimeout(ctxb, 2*time.Hour)
		defer cancel()
		var a *acquisition
		if _, err := c.Once("job", time.Hour).Do(ctxb, "1", func(context.Context, *fencelock.Lease) error {
			a = start(ctx, c.Mutex("job@1"))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		if a.over() {
			t.Fatal("a local waiter got a lock that is kept")
		}
		unlock(t, a.wait(t, time.Hour))
	})
}

// TestMarkIsLeftHoweverLongItTakes (K44): an idle session is not let go while the
// withdrawal that leaves a mark is not acknowledged, or the mark would be lost.
func TestMarkIsLeftHoweverLongItTakes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c := newClient(t, bent(t, store, `during(0s, 2m, on(withdraw, refuse))`), nil)
		_, _ = c.Once("job", time.Hour).Do(ctxb, "1", func(context.Context, *fencelock.Lease) error { return nil })
		time.Sleep(3 * time.Minute)
		if st := status(t, store, "job@1"); len(st.Holders) != 1 || !st.Holders[0].Kept {
			t.Errorf("holders are %v, want a mark", st.Holders)
		}
	})
}

// TestOneClaimWhileAnUnlockIsUnderWay (K15): until the store has answered an unlock,
// no second goroutine drives the claim of that name. Two would hold it with one token.
func TestOneClaimWhileAnUnlockIsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tp, lost := tap(newStore()), false
		tp.OnWithdraw = func(ctx context.Context, w driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
			if time.Sleep(time.Second); !lost {
				lost = true
				return 0, driver.ErrUnknown // the first request is lost
			}
			return next(ctx, w)
		}
		c := newClient(t, tp, nil)
		l := lock(t, c, "x")
		go l.Unlock(ctxb)
		synctest.Wait() // it waits for the store
		a, b := start(ctxb, c.Mutex("x")), start(ctxb, c.Mutex("x"))
		time.Sleep(10 * time.Second)
		if a.over() && b.over() {
			t.Errorf("two hold the lock, with tokens %v and %v", a.lease.Token(), b.lease.Token())
		}
		unlock(t, a.wait(t, time.Minute))
		unlock(t, b.wait(t, time.Minute))
	})
}

// TestRecordNamesTheHolder: a claim is handed off locally only if its record is right
// for the next holder.
func TestRecordNamesTheHolder(t *testing.T) {
	for what, about := range map[string]func(who string) fencelock.LockOption{
		"reason": fencelock.Reason,
		"owner":  fencelock.OwnedBy,
		"label":  func(who string) fencelock.LockOption { return fencelock.Label("for", who) },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := newStore()
				c := newClient(t, store, nil)
				l := lock(t, c, "x", about("one"))
				a := start(ctxb, c.Mutex("x", about("two")))
				unlock(t, l)
				next := a.wait(t, time.Second)
				rec := status(t, store, "x").Holders[0].Record
				if got := map[string]string{"reason": rec.Reason, "owner": rec.Owner, "label": rec.Labels["for"]}[what]; got != "two" {
					t.Errorf("held by two, the record says %q", got)
				}
				if what == "owner" && next.Owner() != "two" {
					t.Errorf("the owner of the lease is %q", next.Owner())
				}
				unlock(t, next)
			})
		})
	}
}

// TestDowngradeOverARestart: a restart that keeps the data is no reason for a downgrade
// to fail.
func TestDowngradeOverARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memstore.New(&memstore.Options{Grace: true})
		c := newClient(t, store, nil)
		rw := c.RWMutex("x")
		l, err := rw.Lock(ctxb)
		must.OK(t, err)
		store.Restart()
		// Another call hears of the restart first.
		time.AfterFunc(time.Second, func() { _, _ = c.Mutex("y").TryLock(ctxb) })
		if err := rw.Downgrade(ctxb, l); err != nil {
			t.Errorf("Downgrade over a restart: %v", err)
		}
		if m := status(t, store, "x").Holders[0].Mode; m != driver.Shared {
			t.Errorf("the store has it as %v", m)
		}
		unlock(t, l)
	})
}

// TestKeptElectionHasNoLeader: the leader has gone although MinHold keeps the lock.
func TestKeptElectionHasNoLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), nil)
		e := c.Election("e", fencelock.MinHold(time.Hour))
		ctx, cancel := context.WithCancel(ctxb)
		_ = e.Run(ctx, func(context.Context, *fencelock.Lease) error { cancel(); return nil })
		if h, err := e.Leader(ctxb); h != nil || err != nil {
			t.Errorf("the leader has gone, Leader returned %v, %v", h, err)
		}
	})
}

// TestCloseEndsTheCallsOfEveryCaller (K34): calls of a caller that comes again and
// again share a context, and callers without an end share one. All of them end with the
// session.
func TestCloseEndsTheCallsOfEveryCaller(t *testing.T) {
	ends, cancel := context.WithCancel(ctxb)
	defer cancel()
	for name, caller := range map[string]struct {
		ctx   context.Context
		calls int
	}{
		"first call":   {ends, 0},
		"regular":      {ends, 10},
		"without end":  {ctxb, 0},
		"regular, too": {ctxb, 10},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				tp := tap(newStore())
				slow := false
				tp.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
					if slow {
						<-ctx.Done()
						return driver.Outcome{}, driver.ErrUnknown
					}
					return next(ctx, c)
				}
				c := newClient(t, tp, nil)
				unlock(t, lock(t, c, "opens the session"))
				// The contexts of package context remember who waits for them, and a
				// bubble must not be remembered outside of it.
				ctx, cancel := context.WithCancel(context.WithoutCancel(caller.ctx))
				defer cancel()
				if caller.ctx == ctxb {
					ctx = ctxb
				}
				for range caller.calls {
					l, err := c.Mutex("x").Lock(ctx)
					must.OK(t, err)
					unlock(t, l)
				}
				slow = true
				a := start(ctx, c.Mutex("x"))
				began := time.Now()
				if err := c.Close(ctxb); err != nil {
					t.Error(err)
				}
				<-a.done
				if d := a.at.Sub(began); d > 0 {
					t.Errorf("Lock returned %v after Close", d)
				}
			})
		})
	}
}

// TestCloseDuringAnOpenLeavesNoSession (K34): a session that the store opens after Close,
// because it does not look at the context, is ended there and never announced.
func TestCloseDuringAnOpenLeavesNoSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tp := tap(newStore())
		tp.OnOpen = func(ctx context.Context, req driver.OpenRequest, next locktest.OpenFunc) (driver.Session, driver.Renewal, error) {
			time.Sleep(time.Second)
			return next(context.WithoutCancel(ctx), req)
		}
		var events []fencelock.EventKind
		c := newClient(t, tp, &fencelock.Options{Hooks: fencelock.Hooks{
			Event: func(e fencelock.Event) { events = append(events, e.Kind) },
		}})
		a := start(ctxb, c.Mutex("x"))
		if err := c.Close(ctxb); err != nil {
			t.Error(err)
		}
		<-a.done
		wantIs(t, "Lock", a.err, fencelock.ErrClosed)
		if opened, closed := len(tp.Sent(faultstore.Open)), len(tp.Sent(faultstore.Close)); opened != 1 || closed != 1 || len(events) != 0 {
			t.Errorf("%d sessions were opened and %d closed, announced was %v; want 1, 1 and nothing", opened, closed, events)
		}
	})
}

// TestClosedClientOpensNothing: a lock made after Close, on a shard that was never used,
// is refused without a call.
func TestClosedClientOpensNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tp := tap(newStore())
		c := newClient(t, tp, nil)
		must.OK(t, c.Close(ctxb))
		_, err := c.Mutex("x").Lock(ctxb)
		wantIs(t, "Lock", err, fencelock.ErrClosed)
		_, err = c.Mutex("x").TryLock(ctxb)
		wantIs(t, "TryLock", err, fencelock.ErrClosed)
		if n := tp.Total(); n != 0 {
			t.Errorf("%d calls were sent after Close", n)
		}
	})
}

// TestReclaimedTokenIsTheStores: the store is asked for the token that it gave, not for
// that of a local handoff.
func TestReclaimedTokenIsTheStores(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memstore.New(&memstore.Options{Grace: true})
		tp := tap(store)
		var asked []driver.Held
		tp.OnReclaim = func(ctx context.Context, held []driver.Held, last bool, next locktest.ReclaimFunc) ([]bool, error) {
			asked = append(asked, held...)
			return next(ctx, held, last)
		}
		c := newClient(t, tp, nil)
		l := lock(t, c, "x")
		a := start(ctxb, c.Mutex("x"))
		unlock(t, l)
		passed := a.wait(t, time.Second)
		store.Reset()
		time.Sleep(2 * renewal)
		synctest.Wait()
		if len(asked) == 0 || asked[0].Token != l.Token() || passed.Token() == l.Token() {
			t.Errorf("the store gave %v, the holder has %v, reclaimed was %v", l.Token(), passed.Token(), asked)
		}
		unlock(t, passed)
	})
}

// TestTryIsAnsweredLocallyWhileTheClientHolds: the answer is known without a call, for
// readers too.
func TestTryIsAnsweredLocallyWhileTheClientHolds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tp := tap(newStore())
		c := newClient(t, tp, nil)
		l := lock(t, c, "x")
		before := tp.Total()
		_, err := c.Mutex("x").TryLock(ctxb)
		wantIs(t, "TryLock", err, fencelock.ErrBusy)
		_, err = c.RWMutex("x").TryRLock(ctxb)
		wantIs(t, "TryRLock", err, fencelock.ErrBusy)
		if n := tp.Total() - before; n != 0 {
			t.Errorf("%d calls were sent", n)
		}
		unlock(t, l)
	})
}
