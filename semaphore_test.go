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
	"github.com/fencelock/fencelock/memstore"
)

func TestSemaphoreStaysWithinItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 7
		ctx := kindContext(t)
		store := memstore.New(nil)
		var inside, most atomic.Int64
		var all sync.WaitGroup
		for p := range 3 {
			sem := kindClient(t, store, nil).Semaphore("x", limit)
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
						kindUnlock(t, l)
					}
				})
			}
		}
		all.Wait()
		if m := most.Load(); m != limit {
			t.Errorf("at most %d were inside together; want the limit, %d, to be reached and kept", m, limit)
		}
		kindFree(t, store, "x")
	})
}

func TestSemaphoreTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		a, b := kindClient(t, store, kindOwner("a")).Semaphore("x", 3), kindClient(t, store, nil).Semaphore("x", 3)
		two := kindGot(t)(a.TryAcquire(ctx, 2))
		busy := kindBusy(t)(b.TryAcquire(ctx, 2))
		if len(busy.Holders) != 1 || busy.Holders[0].Record.Owner != "a" || busy.Holders[0].Weight != 2 {
			t.Errorf("holders %+v, want a with weight 2", busy.Holders)
		}
		one := kindGot(t)(b.TryAcquire(ctx, 1))
		if one.Token() == two.Token() {
			t.Error("two permits have the same token")
		}
		kindBusy(t)(a.TryAcquire(ctx, 1))
		// A semaphore counts, it does not recognise: no re-entry by context.
		kindBusy(t)(a.TryAcquire(two.Context(), 1))
		kindUnlock(t, one, two)
		kindUnlock(t, kindGot(t)(b.TryAcquire(ctx, 3)))
	})
}

func TestSemaphoreRefusesBadWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := kindClient(t, memstore.New(nil), nil)
		for _, bad := range []struct{ limit, weight int64 }{{3, 0}, {3, -1}, {3, 4}, {0, 1}, {-2, 1}} {
			for _, acquire := range []func(context.Context, int64) (*fencelock.Lease, error){
				c.Semaphore("x", bad.limit).Acquire, c.Semaphore("x", bad.limit).TryAcquire,
			} {
				_, err := acquire(kindContext(t), bad.weight)
				if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("weight %d of a semaphore with limit %d", bad.weight, bad.limit)) {
					t.Errorf("weight %d, limit %d: got %v", bad.weight, bad.limit, err)
				}
			}
		}
		if err := c.Semaphore("x", 3).SetLimit(kindContext(t), -1); err == nil {
			t.Error("a limit below 0 was stored")
		}
		if err := c.Semaphore("", 3).SetLimit(kindContext(t), 1); err == nil {
			t.Error("a limit was stored for no name")
		}
	})
}

func TestSemaphoreHeavyHeadIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(kindContext(t))
		store := memstore.New(nil)
		var all sync.WaitGroup
		for p := range 2 {
			light := kindClient(t, store, nil).Semaphore("x", 4)
			for i := range 6 {
				all.Go(func() {
					time.Sleep(time.Duration(6*p+i) * 80 * time.Millisecond)
					for ctx.Err() == nil {
						if l, err := light.Acquire(ctx, 1); err == nil {
							time.Sleep(time.Second)
							kindUnlock(t, l)
						}
					}
				})
			}
		}
		heavy := kindClient(t, store, nil).Semaphore("x", 4)
		for range 20 {
			time.Sleep(10 * time.Second)
			began := time.Now()
			l := kindGot(t)(heavy.Acquire(ctx, 4))
			// At most those before it in line: two processes with one claim in
			// line each, after the four that are in.
			if waited := time.Since(began); waited > 2*time.Second {
				t.Errorf("waited %v among permits held for a second", waited)
			}
			kindUnlock(t, l)
		}
		stop()
		all.Wait()
	})
}

func TestSemaphoreLimitChangesWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		operator := kindClient(t, store, nil).Semaphore("x", 1)
		a, b := kindClient(t, store, nil).Semaphore("x", 2), kindClient(t, store, nil).Semaphore("x", 2)
		held := []*fencelock.Lease{kindGot(t)(a.Acquire(ctx, 1)), kindGot(t)(b.Acquire(ctx, 1))}
		waitA := kindGo(func() (*fencelock.Lease, error) { return a.Acquire(ctx, 1) })
		waitB := kindGo(func() (*fencelock.Lease, error) { return b.Acquire(ctx, 1) })
		waitA.waits(t, "the limit is 2")
		began := time.Now()
		if err := operator.SetLimit(ctx, 4); err != nil {
			t.Fatal(err)
		}
		held = append(held, waitA.now(t, "the limit was raised"), waitB.now(t, "the limit was raised"))
		if d := time.Since(began); d != 0 {
			t.Errorf("they were let in %v after the limit was raised", d)
		}
		if st := kindStatus(t, store, "x"); st.Limit != 4 {
			t.Errorf("the limit is shown as %d", st.Limit)
		}
		if err := operator.SetLimit(ctx, 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for i, l := range held {
			if err := l.Err(); err != nil {
				t.Errorf("lowering the limit took permit %d away: %v", i, err)
			}
		}
		next := kindGo(func() (*fencelock.Lease, error) { return a.Acquire(ctx, 1) })
		kindUnlock(t, held[:3]...)
		next.waits(t, "one is inside and the limit is 1")
		kindUnlock(t, held[3])
		kindUnlock(t, next.now(t, "there is room"))
		// Without a stored limit each handle's own holds again.
		if err := operator.SetLimit(ctx, 0); err != nil {
			t.Fatal(err)
		}
		two := kindGot(t)(a.TryAcquire(ctx, 2))
		kindBusy(t)(operator.TryAcquire(ctx, 1))
		kindUnlock(t, two)
	})
}

// A stored limit above the one in the code must be usable to the full.
func TestSemaphoreStoredLimitAboveItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		sem := kindClient(t, store, nil).Semaphore("x", 2)
		if err := sem.SetLimit(ctx, 5); err != nil {
			t.Fatal(err)
		}
		two, three := kindGot(t)(sem.TryAcquire(ctx, 2)), kindGot(t)(sem.TryAcquire(ctx, 2))
		one := kindGot(t)(sem.TryAcquire(ctx, 1))
		kindBusy(t)(sem.TryAcquire(ctx, 1))
		kindUnlock(t, one, two, three)
	})
}

func TestSemaphoreIsNotOverReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		// The reply to the unlock gets lost; its repetition is sent twice.
		a := kindClient(t, kindFaulty(t, store, `on(withdraw, any(nth(1, lose(reply)), nth(2, dup)))`), nil).Semaphore("x", 3)
		b := kindClient(t, store, nil).Semaphore("x", 3)
		l, keep := kindGot(t)(a.Acquire(ctx, 2)), kindGot(t)(b.Acquire(ctx, 1))
		kindIs(t, l.Unlock(ctx), fencelock.ErrUnavailable)
		_ = l.Unlock(ctx) // again: nothing more may come back
		next := kindGot(t)(b.Acquire(ctx, 2))
		for range 3 {
			_ = l.Unlock(ctx)
		}
		time.Sleep(time.Minute) // whatever is repeated in the background
		kindBusy(t)(a.TryAcquire(ctx, 1))
		kindUnlock(t, keep, next, keep)
		full := kindGot(t)(a.TryAcquire(ctx, 3))
		kindBusy(t)(b.TryAcquire(ctx, 1))
		kindUnlock(t, full)
	})
}

// An engine's client library that sends a request again on a broken connection
// gets the answer to the second one: nothing there. That is no loss.
func TestUnlockSentTwiceIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		sem := kindClient(t, kindFaulty(t, store, `on(withdraw, dup)`), nil).Semaphore("x", 3)
		kindUnlock(t, kindGot(t)(sem.Acquire(kindContext(t), 1)))
		kindFree(t, store, "x")
	})
}

func TestPermitsOfADeadProcessComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		// From its first renewal on nobody hears of the process again.
		dead := kindClient(t, kindFaulty(t, store, `on(keepalive, nth(1, cut(1h)))`), nil).Semaphore("x", 3)
		l := kindGot(t)(dead.Acquire(ctx, 2))
		alive := kindClient(t, store, nil).Semaphore("x", 3)
		one := kindGot(t)(alive.Acquire(ctx, 1))
		began := time.Now()
		two := kindGot(t)(alive.Acquire(ctx, 2))
		if waited := time.Since(began); waited > 2*fencelock.DefaultTTL {
			t.Errorf("the permits of a dead process came back after %v", waited)
		}
		kindIs(t, l.Err(), fencelock.ErrLost)
		if two.Token() <= l.Token() {
			t.Errorf("token %v after %v", two.Token(), l.Token())
		}
		kindBusy(t)(alive.TryAcquire(ctx, 1))
		kindUnlock(t, one, two)
		kindIs(t, l.Unlock(ctx), fencelock.ErrLost)
		kindUnlock(t, kindGot(t)(alive.TryAcquire(ctx, 3)))
	})
}

func TestSemaphoreWaiterThatGivesUpBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		a, b := kindClient(t, store, nil).Semaphore("x", 3), kindClient(t, store, nil).Semaphore("x", 3)
		held := kindGot(t)(a.Acquire(kindContext(t), 2))
		ctx, cancel := context.WithCancel(kindContext(t))
		heavy := kindGo(func() (*fencelock.Lease, error) { return b.Acquire(ctx, 3) })
		light := kindGo(func() (*fencelock.Lease, error) { return a.Acquire(kindContext(t), 1) })
		behind := kindGo(func() (*fencelock.Lease, error) { return b.Acquire(kindContext(t), 1) })
		light.waits(t, "it is behind the heavy one, which is first in line")
		cancel()
		_, err := heavy.wait()
		kindIs(t, err, context.Canceled)
		l := light.now(t, "the heavy one has gone")
		behind.waits(t, "it is full")
		kindUnlock(t, held)
		kindUnlock(t, l, behind.now(t, "there is room"))
	})
}
