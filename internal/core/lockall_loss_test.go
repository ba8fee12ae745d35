// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
)

// lockingAll is a LockAll under way in its own goroutine.
type lockingAll struct {
	done chan struct{}
	set  *fencelock.LeaseSet
	err  error
}

func startAll(ctx context.Context, c *fencelock.Client, names []string, opts ...fencelock.LockOption) *lockingAll {
	a := &lockingAll{done: make(chan struct{})}
	go func() {
		a.set, a.err = c.LockAll(ctx, names, opts...)
		close(a.done)
	}()
	synctest.Wait()
	return a
}

// wait returns when the call has ended, or fails the test.
func (a *lockingAll) wait(t *testing.T) {
	t.Helper()
	select {
	case <-a.done:
	case <-time.After(10 * time.Minute):
		t.Fatal("LockAll waits on")
	}
}

// A lease that is lost while LockAll waits for another name ends the wait: the
// set would not be held.
func TestLockAllEndsWhenALeaseIsLostDuringTheWait(t *testing.T) {
	for name, c := range map[string]struct {
		fault string
		opts  []fencelock.LockOption
		why   error
		text  string
	}{
		"outage": {`during(1s, 25s, lose(request))`, nil, fencelock.LossUnrenewed, `session not renewed in time`},
		"own end": {`none`, []fencelock.LockOption{fencelock.MaxHold(10 * time.Second)}, fencelock.LossMaxHold,
			`lease reached its end`},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := newStore()
				a := newClient(t, bent(t, store, c.fault), &fencelock.Options{StoreTimeout: time.Hour})
				b := newClient(t, store, nil)
				other := lock(t, b, "b")
				all := startAll(t.Context(), a, []string{"a", "b"}, c.opts...)
				all.wait(t)
				wantIs(t, "LockAll", all.err, fencelock.ErrLost, c.why)
				wantText(t, all.err, `fencelock: lock all: lock "a" (memory): lease lost: `+c.text+
					`; it was lost while the other names were waited for`)
				if all.set != nil {
					t.Error("got a set beside the error")
				}
				unlock(t, other)
				unlock(t, lock(t, b, "a"))
				unlock(t, lock(t, b, "b"))
			})
		})
	}
}

// The grant of the last name may come from a store that does not look at its context,
// after another was lost.
func TestLockAllWithASlowGrantDoesNotReturnALostSet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		tp := tap(store)
		tp.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			if c.Name == "b" {
				time.Sleep(2 * renewal)
			}
			return next(context.WithoutCancel(ctx), c)
		}
		all := startAll(t.Context(), newClient(t, tp, nil), []string{"a", "b"})
		if _, err := store.Break(ctxb, "a", status(t, store, "a").Holders[0].Token); err != nil {
			t.Fatal(err)
		}
		all.wait(t)
		wantIs(t, "LockAll", all.err, fencelock.ErrLost, fencelock.LossForceUnlock)
		wantClaims(t, store, "b", 0, 0)
	})
}

// The machine may be suspended while the last name is asked for: the first is past its end
// then, and no timer has noticed.
func TestLockAllAfterASuspendDoesNotReturnALostSet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var suspended atomic.Int64
		tp := tap(newStore())
		tp.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			if c.Name == "b" {
				suspended.Store(int64(5 * time.Second))
			}
			return next(ctx, c)
		}
		c, err := newSuspendable(tp, nil, func() time.Duration { return time.Duration(suspended.Load()) })
		must.OK(t, err)
		closeLater(t, c)
		set, err := c.LockAll(ctxb, []string{"a", "b"}, fencelock.MaxHold(5*time.Second))
		wantIs(t, "LockAll", err, fencelock.ErrLost, fencelock.LossMaxHold)
		if set != nil {
			t.Error("got a set beside the error")
		}
	})
}

// The last name may be granted at the very moment another is lost.
func TestLockAllDoesNotReturnALostSet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		a, b := newClient(t, store, nil), newClient(t, store, nil)
		const end = 10 * time.Second
		for before := range 20 {
			other := lock(t, b, "b")
			all := startAll(t.Context(), a, []string{"a", "b"}, fencelock.MaxHold(end))
			time.Sleep(end - end/100 - end/10 - 10*time.Microsecond + time.Duration(before)*time.Microsecond)
			unlock(t, other)
			all.wait(t)
			if all.err != nil {
				wantIs(t, "LockAll", all.err, fencelock.ErrLost)
				continue
			}
			if !all.set.Valid() && all.set.Context().Err() == nil {
				t.Error("the set is not held and its context has not ended")
			}
			_ = all.set.Unlock(ctxb)
		}
	})
}

func TestLockAllReturnsWhenItsContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		lock(t, newClient(t, store, nil), "z")
		c := newClient(t, bent(t, store, `during(1s, 1m, on(withdraw, lose(request)))`), nil)
		names := []string{"z"}
		for i := range 50 {
			names = append(names, fmt.Sprint("a", i))
		}
		began := time.Now()
		err := within(2*time.Second, func(ctx context.Context) error { _, err := c.LockAll(ctx, names); return err })
		wantIs(t, "LockAll", err, context.DeadlineExceeded)
		wantNear(t, "LockAll returned", time.Now(), began.Add(2*time.Second))
		time.Sleep(time.Minute + callTimeout)
		for _, name := range names[1:] {
			wantClaims(t, store, name, 0, 0)
		}
	})
}

// A store that does not answer costs the unlock of a set one timeout, not one
// for each lease.
func TestUnlockOfASetWaitsOnceForASilentStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, bent(t, newStore(), `during(1s, 1m, on(withdraw, lose(request)))`), nil)
		set, err := c.LockAll(ctxb, []string{"a", "b", "c", "d"})
		must.OK(t, err)
		time.Sleep(time.Second)
		began := time.Now()
		wantIs(t, "Unlock", set.Unlock(ctxb), fencelock.ErrUnavailable)
		wantNear(t, "Unlock returned", time.Now(), began.Add(callTimeout))
	})
}

// Every name costs the same, however many are held already: the deadlines of those are not
// compared with the clock again after each.
func TestLockAllCostsTheSameForEachName(t *testing.T) {
	reads := func(n int) (total int64) {
		bubble(t, func(t *testing.T) {
			var count atomic.Int64
			c, err := newSuspendable(newStore(), nil, func() time.Duration { count.Add(1); return 0 })
			must.OK(t, err)
			closeLater(t, c)
			names := make([]string, n)
			for i := range names {
				names[i] = fmt.Sprintf("%04d", i)
			}
			count.Store(0)
			set, err := c.LockAll(ctxb, names)
			must.OK(t, err)
			total = count.Load()
			if err := set.Unlock(ctxb); err != nil {
				t.Error(err)
			}
		})
		return total
	}
	few, many := reads(100), reads(1000)
	if many > 12*few {
		t.Errorf("the clock was read %d times for 100 names and %d times for 1000", few, many)
	}
}

// A set is given back from its last name on: others wait for the first, and hold what comes
// after it when they get it.
func TestSetIsUnlockedFromItsLastName(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, hold := tap(newStore()), make(chan struct{})
		st.OnWithdraw = func(ctx context.Context, w driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
			<-hold
			return next(ctx, w)
		}
		c := newClient(t, st, nil)
		names := make([]string, 40)
		for i := range names {
			names[i] = fmt.Sprintf("%02d", i)
		}
		set, err := c.LockAll(ctxb, names)
		must.OK(t, err)
		done := make(chan error, 1)
		go func() { done <- set.Unlock(ctxb) }()
		synctest.Wait()
		calls := st.Sent(faultstore.Withdraw)
		for _, w := range calls { // as many as there are at once
			if w.Name < names[len(names)-len(calls)] {
				t.Errorf("%s is given back before the last %d names", w.Name, len(calls))
			}
		}
		if len(calls) == 0 || len(calls) == len(names) {
			t.Errorf("%d of %d are given back at once: the test shows nothing", len(calls), len(names))
		}
		close(hold)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
