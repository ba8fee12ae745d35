// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
)

// TestReleasedLeasesWithAnEndAreDropped: the client does not wait for the end that a
// released lease would have had, in whatever order leases are made and released.
func TestReleasedLeasesWithAnEndAreDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), nil)
		var leases []*fencelock.Lease
		for i := range 100 {
			end := time.Hour + time.Duration(i*37%100)*time.Minute
			leases = append(leases, lock(t, c, fmt.Sprint(i), fencelock.MaxHold(end)))
		}
		for i := range leases {
			unlock(t, leases[i*61%100])
			if n := coreOf(c).PlannedEnds(); n != 99-i {
				t.Fatalf("after %d of 100 were released the client waits for %d ends", i+1, n)
			}
		}
	})
}

// TestShortMaxHoldEndsExactly (K29): an end that comes before the next tick of the
// session's timer is met, too.
func TestShortMaxHoldEndsExactly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const hold = 300 * time.Millisecond
		c := newClient(t, newStore(), nil)
		keeps := lock(t, c, "keeps the session")
		sent := time.Now()
		l := lock(t, c, "x", fencelock.MaxHold(hold))
		wantNear(t, "notified", ended(t, l.Context()), sent.Add(hold-hold/100-hold/10))
		unlock(t, keeps)
	})
}

// TestMinHoldIsNotPassedOnLocally (K30): a waiter of the same client waits for the end of
// MinHold as any other.
func TestMinHoldIsNotPassedOnLocally(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), nil)
		m := c.Mutex("x", fencelock.MinHold(10*time.Second))
		began := time.Now()
		l, err := m.Lock(ctxb)
		must.OK(t, err)
		a := start(ctxb, m)
		unlock(t, l)
		next := a.wait(t, time.Minute)
		if d := a.at.Sub(began); d < 10*time.Second {
			t.Errorf("locked again %v after the grant", d)
		}
		unlock(t, next)
	})
}

// TestMaxHoldIsNotPassedOnLocally (K29): the next holder in the same client has all
// its time, not what the one before has left.
func TestMaxHoldIsNotPassedOnLocally(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), nil)
		m := c.Mutex("x", fencelock.MaxHold(100*time.Millisecond))
		l, err := m.Lock(ctxb)
		must.OK(t, err)
		a := start(ctxb, m)
		time.Sleep(50 * time.Millisecond) // soon enough for a local handoff
		unlock(t, l)
		next := a.wait(t, time.Minute)
		if d := ended(t, next.Context()).Sub(a.at); d < 80*time.Millisecond {
			t.Errorf("the lease lasted %v of 100ms", d)
		}
	})
}

// TestSessionOfALeaseThatEndedIsNotLetGoAtOnce (K33): a lease in use for an hour is use of
// the session until it ends.
func TestSessionOfALeaseThatEndedIsNotLetGoAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tp := tap(newStore())
		c := newClient(t, tp, nil)
		ended(t, lock(t, c, "x", fencelock.MaxHold(time.Minute)).Context())
		time.Sleep(trust / 2)
		unlock(t, lock(t, c, "y"))
		if n := len(tp.Sent(faultstore.Open)); n != 1 {
			t.Errorf("%d sessions were opened, want the first one used again", n)
		}
	})
}

// TestTryThatCameTooLateIsWithdrawn: a try whose fixed lease was over before the answer
// came leaves nothing in the store.
func TestTryThatCameTooLateIsWithdrawn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tp := tap(newStore())
		c := newClient(t, bent(t, tp, `on(attempt, delay(0s, 2s))`), nil)
		if _, err := c.Mutex("x", fencelock.MaxHold(time.Second)).TryLock(ctxb); err == nil {
			t.Fatal("locked")
		}
		synctest.Wait()
		if n := len(tp.Sent(faultstore.Withdraw)); n != 1 {
			t.Errorf("%d withdrawals were sent, want 1", n)
		}
	})
}

// TestSemaphoreDoesNotReenterAMutex: permits are counted, whatever lease the context
// carries. The lock of the same name keeps them out.
func TestSemaphoreDoesNotReenterAMutex(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), nil)
		l := lock(t, c, "x")
		_, err := c.Semaphore("x", 3).TryAcquire(l.Context(), 1)
		wantIs(t, "TryAcquire", err, fencelock.ErrBusy)
		unlock(t, l)
	})
}

// TestPermitsCountByTheirOwnLimit: a waiter does not get the place of another that gave
// up and had another limit.
func TestPermitsCountByTheirOwnLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c, other := newClient(t, store, nil), newClient(t, store, nil)
		held := locktest.Got(t)(other.Semaphore("x", 3).Acquire(ctxb, 1))
		ctx, cancel := context.WithCancel(ctxb)
		defer cancel()
		narrow := locktest.Go(func() (*fencelock.Lease, error) { return c.Semaphore("x", 1).Acquire(ctx, 1) })
		wide := locktest.Go(func() (*fencelock.Lease, error) { return c.Semaphore("x", 3).Acquire(locktest.Context(t), 1) })
		wide.Waits(t, "it is behind the narrow one")
		cancel()
		if _, err := narrow.Wait(); err == nil {
			t.Fatal("acquired beyond its limit")
		}
		locktest.Unlock(t, wide.Now(t, "two of three are in use"), held)
	})
}

// TestLabelsBelongToOneLock: an option of one lock does not change the records of others.
func TestLabelsBelongToOneLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c := newClient(t, store, &fencelock.Options{Labels: map[string]string{"team": "a"}})
		x := lock(t, c, "x", fencelock.Label("job", "import"))
		y := lock(t, c, "y")
		if got := status(t, store, "x").Holders[0].Record.Labels; len(got) != 2 {
			t.Errorf("labels %v, want team and job", got)
		}
		if got := status(t, store, "y").Holders[0].Record.Labels; len(got) != 1 {
			t.Errorf("labels %v, want team only", got)
		}
		unlock(t, x)
		unlock(t, y)
	})
}
