// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

func TestTryLockDuringCloseReturnsClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := tap(newStore())
		st.OnOpen = func(ctx context.Context, r driver.OpenRequest, next locktest.OpenFunc) (driver.Session, driver.Renewal, error) {
			<-ctx.Done()
			return nil, driver.Renewal{}, errors.Join(driver.ErrUnknown, ctx.Err())
		}
		c := newClient(t, st, nil)
		try := locktest.Go(func() (*fencelock.Lease, error) { return c.Mutex("x").TryLock(ctxb) })
		lock := start(ctxb, c.Mutex("x"))
		must.OK(t, c.Close(ctxb))
		_, err := try.Wait()
		wantIs(t, "TryLock", err, fencelock.ErrClosed)
		<-lock.done
		wantIs(t, "Lock", lock.err, fencelock.ErrClosed)
	})
}

// Close gives it back, and so does the unlock: whichever comes first.
func TestUnlockDuringCloseIsNoLoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		st := tap(m)
		st.OnWithdraw = func(ctx context.Context, w driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
			time.Sleep(time.Second)
			return next(ctx, w)
		}
		c := newClient(t, st, nil)
		l := lock(t, c, "x")
		unlocking := locktest.Go(locktest.Err(func() error { return l.Unlock(ctxb) }))
		time.Sleep(500 * time.Millisecond)
		must.OK(t, c.Close(ctxb))
		if _, err := unlocking.Wait(); err != nil {
			t.Errorf("Unlock of a lease that was held to the end: %v", err)
		}
		wantIs(t, "Err", l.Err(), fencelock.ErrReleased)
		wantClaims(t, m, "x", 0, 0)
	})
}

// A store that does not answer must not hold up the end of the process.
func TestCloseDoesNotWaitForASlowAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := tap(newStore())
		st.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			<-ctx.Done()
			return driver.Outcome{}, errors.Join(driver.ErrUnknown, ctx.Err())
		}
		c := newClient(t, st, nil)
		lock := start(ctxb, c.Mutex("x"))
		try := locktest.Go(func() (*fencelock.Lease, error) { return c.Mutex("y").TryLock(ctxb) })
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		must.OK(t, c.Close(ctxb))
		if took := time.Since(began); took != 0 {
			t.Errorf("Close took %v", took)
		}
		<-lock.done
		wantIs(t, "Lock", lock.err, fencelock.ErrClosed)
		_, err := try.Wait()
		wantIs(t, "TryLock", err, fencelock.ErrClosed)
		if took := time.Since(began); took > time.Second {
			t.Errorf("the last came back after %v", took)
		}
	})
}

// One call that fails is not the end: Close answers for the locks.
func TestCloseTriesAgain(t *testing.T) {
	for name, fault := range map[string]string{
		"refused":       `on(close, any(nth(1, refuse), nth(2, refuse)))`,
		"request":       `on(close, nth(1, lose(request)))`,
		"reply":         `on(close, nth(1, lose(reply)))`,
		"late":          `on(close, nth(1, delay(7s, 0s)))`,
		"unlock failed": `any(on(close, nth(1, refuse)), on(withdraw, refuse))`,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newStore()
				c := newClient(t, bent(t, m, fault), nil)
				lock(t, c, "x")
				_ = lock(t, c, "y").Unlock(ctxb)
				must.OK(t, c.Close(ctxb))
				wantClaims(t, m, "x", 0, 0)
				wantClaims(t, m, "y", 0, 0)
			})
		})
	}
}

// The store was reset and the session has not noticed yet: the locks that survived are
// released anyway.
func TestCloseAfterAResetGivesLocksBack(t *testing.T) {
	for name, r := range resets {
		for how, fault := range map[string]string{
			"at once":      `on(withdraw, delay(1s, 0s))`,
			"open refused": `on(open, nth(2, refuse))`,
			"open lost":    `on(open, nth(2, lose(reply)))`,
			"close lost":   `on(close, nth(2, lose(request)))`,
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					m := memstore.New(&memstore.Options{Grace: r.grace})
					c := newClient(t, bent(t, m, fault), nil)
					lock(t, c, "x")
					r.reset(m)
					must.OK(t, c.Close(ctxb))
					wantClaims(t, m, "x", 0, 0)
				})
			})
		}
	}
}

// The store was reset to data in which the client still holds what it has given
// back since.
func TestCloseAfterAResetGivesOlderLocksBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		c := newClient(t, m, nil)
		l := lock(t, c, "x")
		old := m.Snapshot()
		unlock(t, l)
		m.Restore(old)
		wantClaims(t, m, "x", 1, 0)
		must.OK(t, c.Close(ctxb))
		wantClaims(t, m, "x", 0, 0)
	})
}

func TestCloseReportsWhatWasNotGivenBack(t *testing.T) {
	for name, tt := range map[string]struct {
		fault string
		most  time.Duration
	}{
		"silent":  {`on(close, lose(request))`, 2 * callTimeout},
		"refused": {`on(close, refuse)`, 2 * callTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := locktest.Open(t, bent(t, newStore(), tt.fault))
				lock(t, c, "x")
				began := time.Now()
				err := c.Close(ctxb)
				wantIs(t, "Close", err, fencelock.ErrUnavailable)
				if took := time.Since(began); took > tt.most {
					t.Errorf("Close took %v", took)
				}
				var e *fencelock.Error
				if !errors.As(err, &e) || e.Op != "close" || e.Hint == "" {
					t.Errorf("Close: %v; want an *Error with a hint", err)
				}
				if again := c.Close(ctxb); again != err {
					t.Errorf("Close again: %v", again)
				}
			})
		})
	}
	t.Run("definite", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			st := tap(newStore())
			st.OnClose = func(context.Context) error { return errNoAuth }
			c := locktest.Open(t, st)
			lock(t, c, "x")
			wantIs(t, "Close", c.Close(ctxb), fencelock.ErrUnavailable, errNoAuth)
			if n := len(st.Sent(faultstore.Close)); n != 1 {
				t.Errorf("%d calls; a definite answer is not asked for again", n)
			}
		})
	})
}

// A client that holds nothing has nothing to give back, so nothing to report.
func TestCloseOfAnIdleClientReportsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, bent(t, newStore(), `on(close, lose(request))`), nil)
		unlock(t, lock(t, c, "x"))
		if err := c.Close(ctxb); err != nil {
			t.Error(err)
		}
	})
}

// TestCloseReportsAQueuedClaimThatStays: a waiter pauses after a failed attempt, and
// its claim is in the store's queue.
func TestCloseReportsAQueuedClaimThatStays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c, err := fencelock.New(bent(t, store, "any(on(attempt, after(1, refuse)), on(close, refuse))"), nil)
		must.OK(t, err)
		other := newClient(t, store, nil)
		l := lock(t, other, "x")
		start(t.Context(), c.Mutex("x"))
		time.Sleep(fencelock.DefaultTTL * 5 / 4) // the waiter has looked again and was refused
		wantClaims(t, store, "x", 1, 1)
		if err := c.Close(t.Context()); !errors.Is(err, fencelock.ErrUnavailable) {
			t.Errorf("Close with a claim in the store's queue: %v, want ErrUnavailable", err)
		}
		unlock(t, l)
	})
}
