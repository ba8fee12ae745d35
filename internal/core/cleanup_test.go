// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
)

// abandon asks for n locks at once and gives up after a moment. The store must
// not answer the attempts in time.
func abandon(t *testing.T, c *fencelock.Client, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctxb, 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if _, err := c.Mutex(fmt.Sprint("n", i)).Lock(ctx); err == nil {
				t.Errorf("n%d is held", i)
			}
		})
	}
	wg.Wait()
}

// cleanedUp returns how long it takes until nothing of abandon is left.
func cleanedUp(t *testing.T, store driver.Store, n int) time.Duration {
	t.Helper()
	began := time.Now()
	for i := range n {
		for len(status(t, store, fmt.Sprint("n", i)).Holders) > 0 {
			if time.Since(began) > time.Hour {
				t.Fatalf("n%d is taken after an hour", i)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	return time.Since(began)
}

// A process that lives must not block locks longer than one that dies: it frees
// what it gave up within a TTL.
func TestAbandonedClaimsAreFreeWithinATTL(t *testing.T) {
	for name, fault := range map[string]string{
		"first withdrawals": `any(on(attempt, lose(reply)), on(withdraw, delay(10ms, 10ms)))`,
		"repeated":          `any(on(attempt, lose(reply)), on(withdraw, during(0s, 3s, refuse)), on(withdraw, delay(10ms, 10ms)))`,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const n = 5000
				store := newStore()
				abandon(t, newClient(t, bent(t, store, fault), nil), n)
				took := cleanedUp(t, store, n)
				share := float64(took) / float64(ttl)
				if name == "first withdrawals" {
					figure.Print("cleanup-5000-claims-vs-ttl", share, figure.AtMost(1))
				}
				if share > 1 {
					t.Errorf("%d locks that no caller holds or wants stayed taken for %v; a process that died would block them for %v", n, took, ttl)
				}
			})
		})
	}
}

// Withdrawals that the store does not answer must not block the others.
func TestSilentWithdrawalDelaysNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const silent = 60
		var inFlight atomic.Int32
		store := newStore()
		st := tap(store)
		st.OnWithdraw = func(ctx context.Context, w driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
			if w.Name != "good" {
				inFlight.Add(1)
				defer inFlight.Add(-1)
				<-ctx.Done()
				return 0, fmt.Errorf("%w: %w", driver.ErrUnknown, ctx.Err())
			}
			return next(ctx, w)
		}
		st.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			if _, err := next(ctx, c); err != nil {
				return driver.Outcome{}, err
			}
			<-ctx.Done()
			return driver.Outcome{}, fmt.Errorf("%w: %w", driver.ErrUnknown, ctx.Err())
		}
		c := newClient(t, st, nil)
		abandon(t, c, silent)
		time.Sleep(3 * callTimeout) // each of them has failed
		for inFlight.Load() == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(trust / 12) // the backoff is over: all that may be in flight are
		if n := inFlight.Load(); n != 16 {
			t.Fatalf("%d repeated withdrawals in flight; want 16", n)
		}
		ctx, cancel := context.WithTimeout(ctxb, time.Millisecond)
		defer cancel()
		if _, err := c.Mutex("good").Lock(ctx); err == nil {
			t.Fatal("held")
		}
		synctest.Wait()
		wantClaims(t, store, "good", 0, 0)
	})
}

func TestCleanupIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const most = 32
		var now, max atomic.Int32
		store := newStore()
		st := tap(bent(t, store, `on(attempt, lose(reply))`))
		st.OnWithdraw = func(ctx context.Context, w driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
			n := now.Add(1)
			defer now.Add(-1)
			if n > max.Load() {
				max.Store(n)
			}
			time.Sleep(20 * time.Millisecond)
			return next(ctx, w)
		}
		abandon(t, newClient(t, st, nil), 500)
		cleanedUp(t, store, 500)
		if got := max.Load(); got > most || got < most/2 {
			t.Errorf("%d withdrawals in flight; want at most %d, and no fewer than half of it", got, most)
		}
	})
}

// TestCallersThatGiveUpLeaveFewClaims: callers with short contexts ask faster than the store takes their claims out of its
// queues. What they leave there is bounded, or the queues would grow until every call is too slow, keep-alives
// among them; and they are served as soon as the store is fast again.
func TestCallersThatGiveUpLeaveFewClaims(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const names = 10
		const most = 32 + 64 + 2*names // in flight, not sent, callers
		var slow atomic.Bool
		store := newStore()
		st := tap(store)
		st.OnWithdraw = func(ctx context.Context, w driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
			if slow.Load() {
				time.Sleep(100 * time.Millisecond)
			}
			return next(ctx, w)
		}
		c, other := newClient(t, st, nil), newClient(t, store, nil)
		var held []*fencelock.Lease
		for i := range names {
			held = append(held, lock(t, other, fmt.Sprint("n", i)))
		}
		slow.Store(true)
		var wg sync.WaitGroup
		for i := range names {
			wg.Go(func() {
				for range 300 {
					ctx, cancel := context.WithTimeout(ctxb, time.Millisecond)
					if _, err := c.Mutex(fmt.Sprint("n", i)).Lock(ctx); err == nil {
						t.Errorf("n%d is held twice", i)
					}
					cancel()
				}
			})
		}
		wg.Wait()
		waiting := 0
		for i := range names {
			waiting += status(t, store, fmt.Sprint("n", i)).Waiting
		}
		if waiting > most || waiting < names {
			t.Errorf("%d claims wait for callers that have gone; want at most %d, and some", waiting, most)
		}
		patient := start(ctxb, c.Mutex("n0"))
		unlock(t, held[0])
		slow.Store(false)
		unlock(t, patient.wait(t, time.Second))
	})
}

// TestClaimWaitsForTheCleanupNoLongerThanForTheStore: while the store does not answer withdrawals, a new claim
// is not sent, and its caller gets an error in time.
func TestClaimWaitsForTheCleanupNoLongerThanForTheStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		st := tap(bent(t, store, `on(attempt, lose(reply))`))
		st.OnWithdraw = func(ctx context.Context, _ driver.Withdrawal, _ locktest.WithdrawFunc) (driver.Removed, error) {
			<-ctx.Done()
			return 0, fmt.Errorf("%w: %w", driver.ErrUnknown, ctx.Err())
		}
		c := newClient(t, st, &fencelock.Options{StoreTimeout: 2 * callTimeout})
		abandon(t, c, 500)
		began := time.Now()
		_, err := c.Mutex("new").Lock(ctxb)
		wantIs(t, "Lock", err, fencelock.ErrUnavailable)
		if took := time.Since(began); took > 4*callTimeout {
			t.Errorf("Lock failed after %v", took)
		}
		for _, claim := range st.Sent(faultstore.Attempt) {
			if claim.Name == "new" {
				t.Error("the claim was sent")
			}
		}
	})
}

// TestHeldLockDoesNotWaitForTheCleanup: a claim that is held is attempted again, for a downgrade, while new claims wait.
func TestHeldLockDoesNotWaitForTheCleanup(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var lose atomic.Bool
		st := tap(newStore())
		st.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			out, err := next(ctx, c)
			if lose.Load() && c.Name != "held" {
				<-ctx.Done()
				return driver.Outcome{}, fmt.Errorf("%w: %w", driver.ErrUnknown, ctx.Err())
			}
			return out, err
		}
		st.OnWithdraw = func(ctx context.Context, _ driver.Withdrawal, _ locktest.WithdrawFunc) (driver.Removed, error) {
			<-ctx.Done()
			return 0, fmt.Errorf("%w: %w", driver.ErrUnknown, ctx.Err())
		}
		c := newClient(t, st, nil)
		rw := c.RWMutex("held")
		l, err := rw.Lock(ctxb)
		must.OK(t, err)
		lose.Store(true)
		abandon(t, c, 500)
		began := time.Now()
		must.OK(t, rw.Downgrade(ctxb, l))
		if took := time.Since(began); took > 0 {
			t.Errorf("the downgrade took %v", took)
		}
	})
}

// A resume that fails again and again does not queue the withdrawal of a claim that
// leaves a mark each time: it is sent once the claim is reclaimed, and not often.
// A reclaim that was not answered may come to the store after the withdrawal that was queued
// before it: the withdrawal is sent with a tombstone then, even if it was queued without.
func TestQueuedWithdrawalLeavesTheTombstoneThatBecameNecessary(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := graceful()
		st, withdrawn, late := tap(m), 0, func() {}
		st.OnWithdraw = func(ctx context.Context, w driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
			if withdrawn++; withdrawn == 1 {
				m.Reset()
				return 0, driver.ErrUnknown
			}
			return next(ctx, w)
		}
		st.OnReclaim = func(ctx context.Context, held []driver.Held, last bool, next locktest.ReclaimFunc) ([]bool, error) {
			if len(st.Sent(faultstore.Reclaim)) == 1 {
				late = func() { _, _ = next(ctxb, held, last) }
				return nil, driver.ErrUnknown
			}
			return next(ctx, held, last)
		}
		c := newClient(t, st, nil)
		res, err := c.Once("job", time.Hour).Do(ctxb, "1", locktest.Nothing)
		wantIs(t, "Do", err, fencelock.ErrUnavailable)
		if res.String() != "ran" {
			t.Error(res)
		}
		time.Sleep(ttl)
		calls := st.Sent(faultstore.Withdraw)
		if last := calls[len(calls)-1]; len(calls) < 2 || calls[0].Tombstone || !last.Tombstone {
			t.Errorf("withdrawals: %+v; want the last with a tombstone", calls)
		}
		late()
		if st := status(t, m, "job@1"); len(st.Holders) != 1 || !st.Holders[0].Kept {
			t.Errorf("want the mark only: %+v", st.Holders)
		}
	})
}

func TestFailedResumesQueueAWithdrawalOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const occurrences = 5
		var cleaned atomic.Int32
		m, opts := graceful(), &fencelock.Options{}
		opts.Hooks.Event = func(e fencelock.Event) {
			if e.Kind == fencelock.ClaimWithdrawn {
				cleaned.Add(1)
			}
		}
		c := newClient(t, bent(t, m, `on(reclaim, for(8s, refuse))`), opts)
		for i := range occurrences {
			go c.Once("job", time.Hour).Do(ctxb, strconv.Itoa(i), func(context.Context, *fencelock.Lease) error {
				time.Sleep(time.Second)
				return nil
			})
		}
		time.Sleep(time.Second - time.Millisecond)
		m.Restart()
		time.Sleep(time.Minute)
		for i := range occurrences {
			if st := status(t, m, "job@"+strconv.Itoa(i)); len(st.Holders) != 1 || !st.Holders[0].Kept {
				t.Errorf("no mark of occurrence %d: %+v", i, st.Holders)
			}
		}
		if n := cleaned.Load(); n > 2*occurrences {
			t.Errorf("%d withdrawals were made for %d claims", n, occurrences)
		}
	})
}
