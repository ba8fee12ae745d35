// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

func TestTryLockDuringCloseSaysClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := tap(newStore())
		st.onOpen = func(ctx context.Context, r driver.OpenRequest, next openFunc) (driver.Session, driver.Life, error) {
			<-ctx.Done()
			return nil, driver.Life{}, errors.Join(driver.ErrUnknown, ctx.Err())
		}
		c := newClient(t, st, nil)
		try := kindGo(func() (*fencelock.Lease, error) { return c.Mutex("x").TryLock(ctxb) })
		lock := start(ctxb, c.Mutex("x"))
		if err := c.Close(ctxb); err != nil {
			t.Fatal(err)
		}
		_, err := try.wait()
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
		st.onWithdraw = func(ctx context.Context, w driver.Withdrawal, next withdrawFunc) (driver.Removed, error) {
			time.Sleep(time.Second)
			return next(ctx, w)
		}
		c := newClient(t, st, nil)
		l := lock(t, c, "x")
		unlocking := kindGo(kindErr(func() error { return l.Unlock(ctxb) }))
		time.Sleep(500 * time.Millisecond)
		if err := c.Close(ctxb); err != nil {
			t.Fatal(err)
		}
		if _, err := unlocking.wait(); err != nil {
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
		st.onAttempt = func(ctx context.Context, c *driver.Claim, next attemptFunc) (driver.Outcome, error) {
			<-ctx.Done()
			return driver.Outcome{}, errors.Join(driver.ErrUnknown, ctx.Err())
		}
		c := newClient(t, st, nil)
		lock := start(ctxb, c.Mutex("x"))
		try := kindGo(func() (*fencelock.Lease, error) { return c.Mutex("y").TryLock(ctxb) })
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		if err := c.Close(ctxb); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("Close took %v", took)
		}
		<-lock.done
		wantIs(t, "Lock", lock.err, fencelock.ErrClosed)
		_, err := try.wait()
		wantIs(t, "TryLock", err, fencelock.ErrClosed)
		if took := time.Since(began); took > time.Second {
			t.Errorf("the last came back after %v", took)
		}
	})
}
