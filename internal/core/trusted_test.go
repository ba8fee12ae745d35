// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestReopenedSessionIsNotTrustedBeforeItsReclaim (K6, K35): a session that is open
// again is trusted until the old deadline and not longer, because the store does not
// have its leases yet. Each further Open would otherwise move the deadline on.
func TestReopenedSessionIsNotTrustedBeforeItsReclaim(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memstore.New(&memstore.Options{Grace: true})
		c := newClient(t, bent(t, store, `on(reclaim, refuse)`), nil)
		sent := time.Now()
		l := lock(t, c, "x")
		time.Sleep(trust / 100) // before the first renewal
		store.Reset()
		wantNear(t, "notified", ended(t, l.Context()), sent.Add(trust))
	})
}

// TestRefusedRenewalEndsTheSession (K4): a store that refuses the session ends it at once;
// trying again would not change the answer.
func TestRefusedRenewalEndsTheSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tp := tap(newStore())
		no := fmt.Errorf("another layout: %w", driver.ErrRefused)
		tp.OnAlive = func(context.Context, locktest.AliveFunc) (driver.Renewal, error) { return driver.Renewal{}, no }
		c := newClient(t, tp, nil)
		l := lock(t, c, "x")
		began := time.Now()
		if d := ended(t, l.Context()).Sub(began); d > renewal+time.Second {
			t.Errorf("the holder was notified after %v, want it with the first renewal", d)
		}
		wantIs(t, "cause", context.Cause(l.Context()), fencelock.ErrLost, no)
	})
}

// TestDeadlineThatMovedBackIsMetExactly (K49): the timer that notifies holders moves
// with the deadline, it does not wait for its next tick.
func TestDeadlineThatMovedBackIsMetExactly(t *testing.T) {
	// First renewals come at a random time, and one of them may come just before the next check of the session, which
	// then meets the deadline by chance.
	for range 40 {
		bubble(t, deadlineMovesBack)
	}
}

func deadlineMovesBack(t *testing.T) {
	const short = 1550 * time.Millisecond // of which 34.5 ms are trusted
	tp := tap(newStore())
	var sent time.Time
	n := 0
	tp.OnAlive = func(ctx context.Context, next locktest.AliveFunc) (driver.Renewal, error) {
		if n++; n > 1 {
			<-ctx.Done()
			return driver.Renewal{}, fmt.Errorf("no answer: %w", driver.ErrUnknown)
		}
		sent = time.Now()
		renewal, err := next(ctx)
		renewal.TTL = short
		return renewal, err
	}
	l := lock(t, newClient(t, tp, nil), "x")
	at := ended(t, l.Context())
	wantNear(t, "notified", at, sent.Add(short-short/100-ttl/10))
}

// TestEndedSessionIsNotTrusted (K8): from the moment a session has ended, its leases
// are not valid, although their contexts end one after the other.
func TestEndedSessionIsNotTrusted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tp := tap(newStore())
		tp.OnAlive = func(context.Context, locktest.AliveFunc) (driver.Renewal, error) {
			return driver.Renewal{}, driver.ErrGone
		}
		l := lock(t, newClient(t, tp, nil), "x")
		polled := false
		coreLease(l).BeforeHoldersAreNotified(func() {
			polled = true
			if l.Valid() || l.Context().Err() != nil {
				t.Errorf("valid: %v, context ended: %v; want neither", l.Valid(), l.Context().Err() != nil)
			}
		})
		if ended(t, l.Context()); !polled {
			t.Error("nothing was seen of the end")
		}
	})
}

// TestGoneHeardByTheCleanupEndsTheSession: the store's word that the session has ended
// reaches its holders whichever call hears it first.
func TestGoneHeardByTheCleanupEndsTheSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		tp := tap(store)
		gone := false
		tp.OnWithdraw = func(ctx context.Context, w driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
			if gone {
				return 0, driver.ErrGone
			}
			return next(ctx, w)
		}
		c, other := newClient(t, tp, nil), newClient(t, store, nil)
		l, y := lock(t, c, "x"), lock(t, other, "y")
		ctx, cancel := context.WithCancel(ctxb)
		a := start(ctx, c.Mutex("y"))
		gone = true
		began := time.Now()
		cancel() // the withdrawal of its claim hears that the session has ended
		<-a.done
		if d := ended(t, l.Context()).Sub(began); d > 100*time.Millisecond {
			t.Errorf("the holder was notified %v after the store's answer", d)
		}
		unlock(t, y)
	})
}

// TestWithdrawalThatHearsOfALossResumesAtOnce: the leases of the session are reclaimed
// then, not at the next renewal, whether Unlock or the cleanup hears of it.
func TestWithdrawalThatHearsOfALossResumesAtOnce(t *testing.T) {
	for name, hears := range map[string]func(c *fencelock.Client, l *fencelock.Lease, cancel func()){
		"unlock":  func(c *fencelock.Client, l *fencelock.Lease, _ func()) { _ = l.Unlock(ctxb) },
		"cleanup": func(_ *fencelock.Client, _ *fencelock.Lease, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := memstore.New(&memstore.Options{Grace: true})
				tp := tap(store)
				n := 0
				tp.OnWithdraw = func(ctx context.Context, w driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
					if n++; n == 1 {
						return next(ctx, w)
					}
					<-ctx.Done() // no further call hears of it
					return 0, driver.ErrUnknown
				}
				tp.OnAwait = func(ctx context.Context, _ *driver.Claim, _ locktest.AttemptFunc) (driver.Outcome, error) {
					<-ctx.Done()
					return driver.Outcome{}, ctx.Err()
				}
				c, other := newClient(t, tp, nil), newClient(t, store, nil)
				lock(t, c, "kept")
				l, busy := lock(t, c, "x"), lock(t, other, "busy")
				ctx, cancel := context.WithCancel(ctxb)
				defer cancel()
				waiting := start(ctx, c.Mutex("busy"))
				store.Restart()
				go hears(c, l, cancel)
				time.Sleep(time.Millisecond)
				synctest.Wait()
				if n := len(tp.Sent(faultstore.Reclaim)); n == 0 {
					t.Error("nothing was reclaimed")
				}
				cancel()
				<-waiting.done
				_ = busy.Unlock(ctxb)
			})
		})
	}
}

// TestLockThatHearsOfALossResumesAtOnce: an acquisition does not wait for the next
// renewal to find out.
func TestLockThatHearsOfALossResumesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c := newClient(t, store, nil)
		y := lock(t, c, "y")
		store.Restart()
		began := time.Now()
		x := lock(t, c, "x")
		if d := time.Since(began); d > 100*time.Millisecond { // one pause; a renewal comes by chance, too, but not so soon
			t.Errorf("locked after %v", d)
		}
		unlock(t, x)
		unlock(t, y)
	})
}

// TestSessionInUseWithoutLeasesIsNotLetGo (K33): a client that only tries keeps its
// session, instead of opening one for each try.
func TestSessionInUseWithoutLeasesIsNotLetGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		tp := tap(store)
		c, other := newClient(t, tp, nil), newClient(t, store, nil)
		l := lock(t, other, "x")
		for range 120 {
			if _, err := c.Mutex("x").TryLock(ctxb); !errors.Is(err, fencelock.ErrBusy) {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if n := len(tp.Sent(faultstore.Open)); n != 1 {
			t.Errorf("%d sessions were opened in two minutes of use", n)
		}
		unlock(t, l)
	})
}

// TestSessionOfAWaiterIsNotLetGo (K33): waiting is use of the session, however long.
func TestSessionOfAWaiterIsNotLetGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		tp := tap(store)
		c, other := newClient(t, tp, nil), newClient(t, store, nil)
		l := lock(t, other, "x")
		a := start(ctxb, c.Mutex("x"))
		time.Sleep(5 * time.Minute)
		unlock(t, l)
		unlock(t, a.wait(t, time.Second))
		if n := len(tp.Sent(faultstore.Open)); n != 1 {
			t.Errorf("%d sessions were opened during one wait", n)
		}
	})
}
