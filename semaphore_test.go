// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

func TestSemaphoreStaysWithinItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 7
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		var inside, most atomic.Int64
		var all sync.WaitGroup
		for p := range 3 {
			sem := locktest.Client(t, store, nil).Semaphore("x", limit)
			for g := range 8 {
				weight := int64(1 + (p+g)%limit)
				all.Go(func() {
					for range 10 {
						l, err := sem.Acquire(ctx, weight)
						if err != nil {
							t.Error(err)
							return
						}
						now := inside.Add(weight)
						for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
						}
						time.Sleep(time.Duration(1+weight) * 10 * time.Millisecond)
						inside.Add(-weight)
						locktest.Unlock(t, l)
					}
				})
			}
		}
		all.Wait()
		if m := most.Load(); m != limit {
			t.Errorf("at most %d were inside together; want the limit, %d, to be reached and kept", m, limit)
		}
		locktest.Free(t, store, "x")
	})
}

// Waiters of one process want equal permits: unlike readers behind a reader, each
// must be counted by the store, however the process orders them.
func TestSemaphoreCountsEachOfEqualWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, waiters = 2, 5
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		full := locktest.Got(t)(locktest.Client(t, store, nil).Semaphore("x", limit).Acquire(ctx, limit))
		sem := locktest.Client(t, store, nil).Semaphore("x", limit)
		got := make(chan *fencelock.Lease, waiters)
		for range waiters {
			go func() {
				l, err := sem.Acquire(ctx, 1)
				if err != nil {
					t.Error(err)
				}
				got <- l
			}()
		}
		synctest.Wait()
		locktest.Unlock(t, full)
		for left := waiters; left > 0; left-- {
			synctest.Wait()
			if want := min(limit, left); len(got) != want {
				t.Fatalf("%d of %d waiters are inside together, want %d", len(got), left, want)
			}
			locktest.Unlock(t, <-got)
		}
		locktest.Free(t, store, "x")
	})
}

func TestSemaphoreTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		a, b := locktest.Client(t, store, locktest.Owner("a")).Semaphore("x", 3), locktest.Client(t, store, nil).Semaphore("x", 3)
		two := locktest.Got(t)(a.TryAcquire(ctx, 2))
		busy := locktest.Busy(t)(b.TryAcquire(ctx, 2))
		if len(busy.Holders) != 1 || busy.Holders[0].Record.Owner != "a" || busy.Holders[0].Weight != 2 {
			t.Errorf("holders %+v, want a with weight 2", busy.Holders)
		}
		one := locktest.Got(t)(b.TryAcquire(ctx, 1))
		if one.Token() == two.Token() {
			t.Error("two permits have the same token")
		}
		locktest.Busy(t)(a.TryAcquire(ctx, 1))
		// A semaphore counts, it does not recognize: no re-entry by context.
		locktest.Busy(t)(a.TryAcquire(two.Context(), 1))
		locktest.Unlock(t, one, two)
		locktest.Unlock(t, locktest.Got(t)(b.TryAcquire(ctx, 3)))
	})
}

func TestSemaphoreRefusesBadWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.Client(t, memstore.New(nil), nil)
		for _, bad := range []struct{ limit, weight int64 }{{3, 0}, {3, -1}, {3, 4}, {0, 1}, {-2, 1}} {
			for _, acquire := range []func(context.Context, int64) (*fencelock.Lease, error){
				c.Semaphore("x", bad.limit).Acquire, c.Semaphore("x", bad.limit).TryAcquire,
			} {
				_, err := acquire(locktest.Context(t), bad.weight)
				if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("weight %d of a semaphore with limit %d", bad.weight, bad.limit)) {
					t.Errorf("weight %d, limit %d: got %v", bad.weight, bad.limit, err)
				}
			}
		}
		if err := c.Semaphore("x", 3).SetLimit(locktest.Context(t), -1); err == nil {
			t.Error("a limit below 0 was stored")
		}
		if err := c.Semaphore("", 3).SetLimit(locktest.Context(t), 1); err == nil {
			t.Error("a limit was stored for no name")
		}
	})
}

func TestSemaphoreHeavyHeadIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(locktest.Context(t))
		store := memstore.New(nil)
		var all sync.WaitGroup
		for p := range 2 {
			light := locktest.Client(t, store, nil).Semaphore("x", 4)
			for i := range 6 {
				all.Go(func() {
					time.Sleep(time.Duration(6*p+i) * 80 * time.Millisecond)
					for ctx.Err() == nil {
						if l, err := light.Acquire(ctx, 1); err == nil {
							time.Sleep(time.Second)
							locktest.Unlock(t, l)
						}
					}
				})
			}
		}
		heavy := locktest.Client(t, store, nil).Semaphore("x", 4)
		for range 20 {
			time.Sleep(10 * time.Second)
			began := time.Now()
			l := locktest.Got(t)(heavy.Acquire(ctx, 4))
			// It waits at most for the claims before it: two processes with one
			// queued claim each, after the four that are granted.
			if waited := time.Since(began); waited > 2*time.Second {
				t.Errorf("waited %v among permits held for a second", waited)
			}
			locktest.Unlock(t, l)
		}
		stop()
		all.Wait()
	})
}

func TestSemaphoreLimitChangesWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		operator := locktest.Client(t, store, nil).Semaphore("x", 1)
		a, b := locktest.Client(t, store, nil).Semaphore("x", 2), locktest.Client(t, store, nil).Semaphore("x", 2)
		held := []*fencelock.Lease{locktest.Got(t)(a.Acquire(ctx, 1)), locktest.Got(t)(b.Acquire(ctx, 1))}
		waitA := locktest.Go(func() (*fencelock.Lease, error) { return a.Acquire(ctx, 1) })
		waitB := locktest.Go(func() (*fencelock.Lease, error) { return b.Acquire(ctx, 1) })
		waitA.Waits(t, "the limit is 2")
		began := time.Now()
		must.OK(t, operator.SetLimit(ctx, 4))
		held = append(held, waitA.Now(t, "the limit was raised"), waitB.Now(t, "the limit was raised"))
		if d := time.Since(began); d != 0 {
			t.Errorf("they were let in %v after the limit was raised", d)
		}
		if st := locktest.Status(t, store, "x"); st.Limit != 4 {
			t.Errorf("the limit is shown as %d", st.Limit)
		}
		must.OK(t, operator.SetLimit(ctx, 1))
		time.Sleep(time.Minute)
		for i, l := range held {
			if err := l.Err(); err != nil {
				t.Errorf("lowering the limit took permit %d away: %v", i, err)
			}
		}
		next := locktest.Go(func() (*fencelock.Lease, error) { return a.Acquire(ctx, 1) })
		locktest.Unlock(t, held[:3]...)
		next.Waits(t, "one is inside and the limit is 1")
		locktest.Unlock(t, held[3])
		locktest.Unlock(t, next.Now(t, "there is room"))
		// Without a stored limit each handle's own holds again.
		must.OK(t, operator.SetLimit(ctx, 0))
		two := locktest.Got(t)(a.TryAcquire(ctx, 2))
		locktest.Busy(t)(operator.TryAcquire(ctx, 1))
		locktest.Unlock(t, two)
	})
}

// A stored limit above the one in the code must be usable to the full.
func TestSemaphoreStoredLimitAboveItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		sem := locktest.Client(t, store, nil).Semaphore("x", 2)
		must.OK(t, sem.SetLimit(ctx, 5))
		two, three := locktest.Got(t)(sem.TryAcquire(ctx, 2)), locktest.Got(t)(sem.TryAcquire(ctx, 2))
		one := locktest.Got(t)(sem.TryAcquire(ctx, 1))
		locktest.Busy(t)(sem.TryAcquire(ctx, 1))
		locktest.Unlock(t, one, two, three)
	})
}

func TestSemaphoreIsNotOverReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		// The reply to the unlock gets lost; its repetition is sent twice.
		a := locktest.Client(t, locktest.Faulty(t, store, `on(withdraw, any(nth(1, lose(reply)), nth(2, dup)))`), nil).Semaphore("x", 3)
		b := locktest.Client(t, store, nil).Semaphore("x", 3)
		l, keep := locktest.Got(t)(a.Acquire(ctx, 2)), locktest.Got(t)(b.Acquire(ctx, 1))
		locktest.Is(t, l.Unlock(ctx), fencelock.ErrUnavailable)
		_ = l.Unlock(ctx) // again: nothing more may come back
		next := locktest.Got(t)(b.Acquire(ctx, 2))
		for range 3 {
			_ = l.Unlock(ctx)
		}
		time.Sleep(time.Minute) // whatever is repeated in the background
		locktest.Busy(t)(a.TryAcquire(ctx, 1))
		locktest.Unlock(t, keep, next, keep)
		full := locktest.Got(t)(a.TryAcquire(ctx, 3))
		locktest.Busy(t)(b.TryAcquire(ctx, 1))
		locktest.Unlock(t, full)
	})
}

// A server's client library that sends a request again on a broken connection gets
// the answer to the second request: the claim is not there. That is not a loss.
func TestUnlockSentTwiceIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		sem := locktest.Client(t, locktest.Faulty(t, store, `on(withdraw, dup)`), nil).Semaphore("x", 3)
		locktest.Unlock(t, locktest.Got(t)(sem.Acquire(locktest.Context(t), 1)))
		locktest.Free(t, store, "x")
	})
}

func TestPermitsOfADeadProcessComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		// The process is cut off from its first renewal on.
		dead := locktest.Client(t, locktest.Faulty(t, store, `on(keepalive, nth(1, cut(1h)))`), nil).Semaphore("x", 3)
		l := locktest.Got(t)(dead.Acquire(ctx, 2))
		alive := locktest.Client(t, store, nil).Semaphore("x", 3)
		one := locktest.Got(t)(alive.Acquire(ctx, 1))
		began := time.Now()
		two := locktest.Got(t)(alive.Acquire(ctx, 2))
		if waited := time.Since(began); waited > 2*fencelock.DefaultTTL {
			t.Errorf("the permits of a dead process came back after %v", waited)
		}
		locktest.Is(t, l.Err(), fencelock.ErrLost)
		if two.Token() <= l.Token() {
			t.Errorf("token %v after %v", two.Token(), l.Token())
		}
		locktest.Busy(t)(alive.TryAcquire(ctx, 1))
		locktest.Unlock(t, one, two)
		locktest.Is(t, l.Unlock(ctx), fencelock.ErrLost)
		locktest.Unlock(t, locktest.Got(t)(alive.TryAcquire(ctx, 3)))
	})
}

func TestSemaphoreWaiterThatGivesUpBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		a, b := locktest.Client(t, store, nil).Semaphore("x", 3), locktest.Client(t, store, nil).Semaphore("x", 3)
		held := locktest.Got(t)(a.Acquire(locktest.Context(t), 2))
		ctx, cancel := context.WithCancel(locktest.Context(t))
		heavy := locktest.Go(func() (*fencelock.Lease, error) { return b.Acquire(ctx, 3) })
		light := locktest.Go(func() (*fencelock.Lease, error) { return a.Acquire(locktest.Context(t), 1) })
		behind := locktest.Go(func() (*fencelock.Lease, error) { return b.Acquire(locktest.Context(t), 1) })
		light.Waits(t, "it is behind the heavy one, which is first in line")
		cancel()
		_, err := heavy.Wait()
		locktest.Is(t, err, context.Canceled)
		l := light.Now(t, "the heavy one has gone")
		behind.Waits(t, "it is full")
		locktest.Unlock(t, held)
		locktest.Unlock(t, l, behind.Now(t, "there is room"))
	})
}
