// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
)

// slowDowngrade makes every attempt to read take a second.
func slowDowngrade(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
	if c.Terms.Mode == driver.Shared {
		time.Sleep(time.Second)
	}
	return next(ctx, c)
}

// write locks or fails the test.
func write(t *testing.T, rw *fencelock.RWMutex) *fencelock.Lease {
	t.Helper()
	l, err := rw.Lock(ctxb)
	must.OK(t, err)
	return l
}

// The store may have made it a reader's and let readers in: it must not be
// passed on to a writer.
func TestDowngradeOfUnknownOutcomeIsAReader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		ts := tap(m)
		ts.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			out, err := next(ctx, c)
			if c.Terms.Mode == driver.Shared { // the reply gets lost
				<-ctx.Done()
				return driver.Outcome{}, errors.Join(driver.ErrUnknown, ctx.Err())
			}
			return out, err
		}
		c, other := newClient(t, ts, &fencelock.Options{LocalHandoff: time.Hour}), newClient(t, m, nil)
		rw := c.RWMutex("x")
		l := write(t, rw)
		reader := locktest.Go(func() (*fencelock.Lease, error) { return other.RWMutex("x").RLock(ctxb) })
		local := start(ctxb, c.Mutex("x"))
		ctx, cancel := context.WithTimeout(ctxb, time.Second)
		defer cancel()
		wantIs(t, "Downgrade", rw.Downgrade(ctx, l), fencelock.ErrUnavailable, context.DeadlineExceeded)
		_, err := rw.Lock(l.Context())
		wantIs(t, "writing under it", err, fencelock.ErrUpgrade)
		r := reader.Now(t, "the store has made it a reader's")
		unlock(t, l)
		if local.over() {
			t.Fatalf("a writer got in beside a reader: %v", local.err)
		}
		unlock(t, r)
		unlock(t, local.wait(t, ttl))
	})
}

func TestUnlockDuringADowngradeLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		ts := tap(m)
		ts.OnAttempt = slowDowngrade
		c := newClient(t, ts, nil)
		lock(t, c, "keeps its session alive")
		rw := c.RWMutex("x")
		l := write(t, rw)
		downgrade := locktest.Go(locktest.Err(func() error { return rw.Downgrade(ctxb, l) }))
		time.Sleep(500 * time.Millisecond)
		unlock(t, l)
		if _, err := downgrade.Wait(); err == nil {
			t.Error("a lease that was unlocked in the meantime was downgraded")
		}
		wantClaims(t, m, "x", 0, 0)
		time.Sleep(time.Hour)
		wantClaims(t, m, "x", 0, 0)
	})
}

func TestNoReentryAsAWriterDuringADowngrade(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		ts := tap(m)
		ts.OnAttempt = slowDowngrade
		c, other := newClient(t, ts, nil), newClient(t, m, nil)
		rw := c.RWMutex("x")
		l := write(t, rw)
		downgrade := locktest.Go(locktest.Err(func() error { return rw.Downgrade(ctxb, l) }))
		time.Sleep(500 * time.Millisecond)
		_, err := rw.Lock(l.Context())
		wantIs(t, "writing while it becomes a reader's", err, fencelock.ErrUpgrade)
		inner, err := rw.RLock(l.Context())
		if err != nil || inner.Token() != l.Token() {
			t.Fatalf("reading under it: %v", err)
		}
		if _, err := downgrade.Wait(); err != nil {
			t.Fatal(err)
		}
		reader, err := other.RWMutex("x").TryRLock(ctxb)
		must.OK(t, err)
		for _, l := range []*fencelock.Lease{inner, l, reader} {
			unlock(t, l)
		}
		wantClaims(t, m, "x", 0, 0)
	})
}

// For the race detector: one goroutine changes what another looks at.
func TestReentryWhileADowngradeIsUnderWay(t *testing.T) {
	m := newStore()
	c := newClient(t, m, nil)
	rw := c.RWMutex("x")
	for range 200 {
		l := write(t, rw)
		held := l.Context()
		var both sync.WaitGroup
		both.Go(func() {
			// It fails, in words, if the other came first.
			if err := rw.Downgrade(ctxb, l); errors.Is(err, fencelock.ErrLost) {
				t.Errorf("Downgrade: %v", err)
			}
		})
		both.Go(func() {
			inner, err := rw.RLock(held)
			if err != nil {
				t.Errorf("reading under it: %v", err)
				return
			}
			unlock(t, inner)
		})
		both.Wait()
		unlock(t, l)
	}
	if st := status(t, m, "x"); len(st.Holders) != 0 {
		t.Errorf("held by %+v", st.Holders)
	}
}

// The handle it is downgraded with need not be the one it was locked with: its
// end stays.
func TestDowngradedLeaseKeepsItsEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		c := newClient(t, m, nil)
		began := time.Now()
		l := write(t, c.RWMutex("x", fencelock.MaxHold(5*time.Second)))
		must.OK(t, c.RWMutex("x").Downgrade(ctxb, l))
		wantNear(t, "notified", ended(t, l.Context()), began.Add(fixedFor(5*time.Second)))
		wantIs(t, "cause", context.Cause(l.Context()), fencelock.LossMaxHold)
		time.Sleep(time.Second)
		wantClaims(t, m, "x", 0, 0)
	})
}

// A downgrade while the session reclaims after a data loss waits for the reclaim: an
// attempt before it would be a new claim in the store's queue.
func TestDowngradeWaitsForTheReclaim(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := graceful()
		c := newClient(t, bent(t, m, `on(reclaim, delay(2s, 0s))`), nil)
		mu := c.RWMutex("x")
		l, err := mu.Lock(ctxb)
		must.OK(t, err)
		m.Reset()
		_ = start(ctxb, c.Mutex("y")) // finds out; granted after the grace period
		time.Sleep(time.Second)       // the reclaim is under way
		must.OK(t, mu.Downgrade(ctxb, l))
		if st := status(t, m, "x"); len(st.Holders) != 1 || st.Holders[0].Mode != driver.Shared {
			t.Errorf("the store has %+v, want a reader", st.Holders)
		}
		unlock(t, l)
		wantClaims(t, m, "x", 0, 0)
	})
}

// A store that was reset is noticed by Downgrade itself, not by the next renewal.
func TestDowngradeFindsOutThatTheStoreWasReset(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		mu := newClient(t, m, nil).RWMutex("x")
		l, err := mu.Lock(ctxb)
		must.OK(t, err)
		m.Restart()
		began := time.Now()
		if err := mu.Downgrade(ctxb, l); err != nil || time.Since(began) > time.Second {
			t.Errorf("Downgrade returned %v after %v", err, time.Since(began))
		}
		unlock(t, l)
	})
}

// A lease that is unlocked during its downgrade was not broken.
func TestDowngradeDuringUnlockIsNotABreak(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, bent(t, newStore(), `on(attempt, nth(2, delay(2s, 0s)))`), nil)
		mu := c.RWMutex("x")
		l, err := mu.Lock(ctxb)
		must.OK(t, err)
		done := make(chan error, 1)
		go func() { done <- mu.Downgrade(ctxb, l) }()
		time.Sleep(time.Second)
		unlock(t, l)
		err = <-done
		wantIs(t, "Downgrade", err, fencelock.ErrReleased)
		if errors.Is(err, fencelock.ErrLost) {
			t.Errorf("it was unlocked, not lost: %v", err)
		}
	})
}
