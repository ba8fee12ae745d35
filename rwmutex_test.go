// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/timing"
	"github.com/fencelock/fencelock/store/memstore"
)

func TestReadersHoldTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		a := locktest.Client(t, store, nil).RWMutex("x")
		b := locktest.Client(t, store, nil).RWMutex("x")
		ra, rb, again := locktest.Got(t)(a.RLock(ctx)), locktest.Got(t)(b.TryRLock(ctx)), locktest.Got(t)(a.RLock(ctx))
		if ra.Token() == rb.Token() || ra.Token() == again.Token() {
			t.Errorf("tokens %v, %v, %v: want each its own", ra.Token(), rb.Token(), again.Token())
		}
		for _, w := range []*fencelock.RWMutex{a, b} {
			locktest.Busy(t)(w.TryLock(ctx))
		}
		writer := locktest.Go(func() (*fencelock.Lease, error) { return b.Lock(ctx) })
		locktest.Unlock(t, ra, rb)
		writer.Waits(t, "a reader is left")
		locktest.Unlock(t, again)
		w := writer.Now(t, "the last reader has gone")
		locktest.Busy(t)(a.TryRLock(ctx))
		locktest.Busy(t)(b.TryRLock(ctx))
		if w.Token() <= ra.Token() || w.Token() <= rb.Token() || w.Token() <= again.Token() {
			t.Errorf("the writer's token %v is not above the readers'", w.Token())
		}
		locktest.Unlock(t, w)
		locktest.Free(t, store, "x")
	})
}

func TestMutexOfTheSameNameIsTheWriteLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		a, b := locktest.Client(t, store, nil), locktest.Client(t, store, nil)
		w := locktest.Got(t)(a.Mutex("x").Lock(ctx))
		locktest.Busy(t)(b.RWMutex("x").TryRLock(ctx))
		locktest.Unlock(t, w)
		r := locktest.Got(t)(b.RWMutex("x").RLock(ctx))
		locktest.Busy(t)(a.Mutex("x").TryLock(ctx))
		locktest.Unlock(t, r)
	})
}

func TestReadersOfAClientShareOneClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers = 40
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		a, b := locktest.Client(t, store, nil), locktest.Client(t, store, nil)
		w := locktest.Got(t)(b.Mutex("x").Lock(ctx))
		var calls []*locktest.Call[*fencelock.Lease]
		for range readers {
			calls = append(calls, locktest.Go(func() (*fencelock.Lease, error) { return a.RWMutex("x").RLock(ctx) }))
		}
		if st := locktest.Status(t, store, "x"); st.Waiting != 1 {
			t.Errorf("%d claims wait in the store, want one for all", st.Waiting)
		}
		locktest.Unlock(t, w)
		seen := map[fencelock.Token]bool{}
		var leases []*fencelock.Lease
		for _, c := range calls {
			l := c.Now(t, "the writer has gone")
			seen[l.Token()] = true
			leases = append(leases, l)
		}
		if len(seen) != readers {
			t.Errorf("%d tokens for %d readers", len(seen), readers)
		}
		if st := locktest.Status(t, store, "x"); len(st.Holders) != 1 {
			t.Errorf("%d holders in the store, want one for all", len(st.Holders))
		}
		locktest.Unlock(t, leases[1:]...)
		locktest.Busy(t)(b.Mutex("x").TryLock(ctx))
		locktest.Unlock(t, leases[0])
		locktest.Unlock(t, locktest.Got(t)(b.Mutex("x").TryLock(ctx)))
	})
}

func TestMoreReadersThanTokensOfOneClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers = 600 // a claim has room for 255 local tokens
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		a, b := locktest.Client(t, store, nil), locktest.Client(t, store, nil)
		w := locktest.Got(t)(b.Mutex("x").Lock(ctx))
		tokens := make(chan fencelock.Token, readers)
		var all sync.WaitGroup
		for range readers {
			all.Go(func() {
				l, err := a.RWMutex("x").RLock(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				tokens <- l.Token()
				time.Sleep(time.Second)
				locktest.Unlock(t, l)
			})
		}
		synctest.Wait()
		locktest.Unlock(t, w)
		synctest.Wait()
		seen := map[fencelock.Token]bool{}
		for range len(tokens) {
			seen[<-tokens] = true
		}
		if len(seen) != readers {
			t.Errorf("%d readers with a token of their own, want all %d together", len(seen), readers)
		}
		all.Wait()
		locktest.Free(t, store, "x")
	})
}

func TestWriterIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		a, b, c := locktest.Client(t, store, nil), locktest.Client(t, store, nil), locktest.Client(t, store, nil)
		reading := locktest.Got(t)(a.RWMutex("x").RLock(ctx))
		writer := locktest.Go(func() (*fencelock.Lease, error) { return b.RWMutex("x").Lock(ctx) })
		// A later reader waits for the writer: in another process, in the
		// process that reads already, and in the writer's own.
		var later []*locktest.Call[*fencelock.Lease]
		for _, p := range []*fencelock.Client{c, a, b} {
			locktest.Busy(t)(p.RWMutex("x").TryRLock(ctx))
			later = append(later, locktest.Go(func() (*fencelock.Lease, error) { return p.RWMutex("x").RLock(ctx) }))
		}
		for i, r := range later {
			r.Waits(t, fmt.Sprintf("reader %d came after the writer", i))
		}
		locktest.Unlock(t, reading)
		w := writer.Now(t, "the readers before it have gone")
		for i, r := range later {
			r.Waits(t, fmt.Sprintf("reader %d while the writer writes", i))
		}
		locktest.Unlock(t, w)
		for i, r := range later {
			locktest.Unlock(t, r.Now(t, fmt.Sprintf("reader %d after the writer", i)))
		}
	})
}

func TestWriterComesThroughAStreamOfReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(locktest.Context(t))
		store := memstore.New(nil)
		var all sync.WaitGroup
		for p := range 3 { // readers that overlap, so that it is never free
			c := locktest.Client(t, store, nil)
			for i := range 4 {
				all.Go(func() {
					time.Sleep(time.Duration(4*p+i) * 100 * time.Millisecond)
					for ctx.Err() == nil {
						if l, err := c.RWMutex("x").RLock(ctx); err == nil {
							time.Sleep(time.Second)
							locktest.Unlock(t, l)
						}
					}
				})
			}
		}
		w := locktest.Client(t, store, nil).RWMutex("x")
		for range 20 {
			time.Sleep(5 * time.Second)
			began := time.Now()
			l := locktest.Got(t)(w.Lock(ctx))
			if waited := time.Since(began); waited > time.Second {
				t.Errorf("the writer waited %v for readers that hold for a second", waited)
			}
			locktest.Unlock(t, l)
		}
		stop()
		all.Wait()
	})
}

func TestReaderIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(locktest.Context(t))
		store := memstore.New(nil)
		const writers, hold = 6, 100 * time.Millisecond
		var all sync.WaitGroup
		for p := range 2 { // several of one process, so that they pass it on
			c := locktest.Client(t, store, nil)
			for range writers / 2 {
				all.Go(func() {
					for ctx.Err() == nil {
						if l, err := c.RWMutex("x", fencelock.Reason(fmt.Sprint(p))).Lock(ctx); err == nil {
							time.Sleep(hold)
							locktest.Unlock(t, l)
						}
					}
				})
			}
		}
		r := locktest.Client(t, store, nil).RWMutex("x")
		// Each of the two processes before it may pass the lock on for
		// DefaultLocalHandoff and one hold more.
		bound := 2 * (timing.DefaultLocalHandoff + hold)
		for range 20 {
			time.Sleep(5 * time.Second)
			began := time.Now()
			l := locktest.Got(t)(r.RLock(ctx))
			if waited := time.Since(began); waited > bound {
				t.Errorf("the reader waited %v, more than %v", waited, bound)
			}
			locktest.Unlock(t, l)
		}
		stop()
		all.Wait()
	})
}

func TestDowngradeLetsNoWriterIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		a, b, c := locktest.Client(t, store, nil).RWMutex("x"), locktest.Client(t, store, nil).RWMutex("x"), locktest.Client(t, store, nil).RWMutex("x")
		l := locktest.Got(t)(a.Lock(ctx))
		token := l.Token()
		// The queue: a reader elsewhere, a reader here (it waits in this client),
		// a writer elsewhere, a reader behind that writer.
		readers := []*locktest.Call[*fencelock.Lease]{
			locktest.Go(func() (*fencelock.Lease, error) { return c.RLock(ctx) }),
			locktest.Go(func() (*fencelock.Lease, error) { return a.RLock(ctx) }),
		}
		writer := locktest.Go(func() (*fencelock.Lease, error) { return b.Lock(ctx) })
		last := locktest.Go(func() (*fencelock.Lease, error) { return locktest.Client(t, store, nil).RWMutex("x").RLock(ctx) })
		must.OK(t, a.Downgrade(ctx, l))
		if l.Token() != token || !l.Valid() || l.Context().Err() != nil {
			t.Errorf("token %v, was %v; valid %v", l.Token(), token, l.Valid())
		}
		first := readers[0].Now(t, "a reader at the front")
		writer.Waits(t, "a reader holds since the downgrade")
		last.Waits(t, "it came after the writer")
		readers[1].Waits(t, "its claim came into the store's queue after the writer's")
		locktest.Busy(t)(b.TryLock(ctx))
		locktest.Unlock(t, first)
		writer.Waits(t, "the downgraded lease still reads")
		locktest.Unlock(t, l)
		w := writer.Now(t, "all readers before it have gone")
		locktest.Unlock(t, w)
		locktest.Unlock(t, last.Now(t, "after the writer"), readers[1].Now(t, "after the writer"))
		locktest.Free(t, store, "x")
	})
}

func TestDowngradeLetsLocalReadersIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		mu := locktest.Client(t, store, nil).RWMutex("x")
		l := locktest.Got(t)(mu.Lock(ctx))
		reader := locktest.Go(func() (*fencelock.Lease, error) { return mu.RLock(ctx) })
		reader.Waits(t, "the writer writes")
		for range 2 { // the second changes nothing
			must.OK(t, mu.Downgrade(ctx, l))
		}
		r := reader.Now(t, "it is a reader now")
		if r.Token() == l.Token() {
			t.Errorf("both readers have token %v", r.Token())
		}
		locktest.Unlock(t, l, r)
		locktest.Free(t, store, "x")
	})
}

func TestDowngradedLeaseOutlivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(&memstore.Options{Grace: true})
		a, b := locktest.Client(t, store, nil).RWMutex("x"), locktest.Client(t, store, nil).RWMutex("x")
		l := locktest.Got(t)(a.Lock(ctx))
		must.OK(t, a.Downgrade(ctx, l))
		store.Reset()
		time.Sleep(2 * memstore.DefaultMaxTTL)
		if err := l.Err(); err != nil {
			t.Fatalf("the lease was not reclaimed: %v", err)
		}
		locktest.Unlock(t, locktest.Got(t)(b.TryRLock(ctx)))
		locktest.Busy(t)(b.TryLock(ctx))
		locktest.Unlock(t, l)
	})
}

func TestDowngradeRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		c, other := locktest.Client(t, store, nil), locktest.Client(t, store, nil)
		l := locktest.Got(t)(c.RWMutex("x").Lock(ctx))
		for _, mu := range []*fencelock.RWMutex{c.RWMutex("y"), other.RWMutex("x"), c.RWMutex("x", fencelock.MinHold(-1))} {
			if mu.Downgrade(ctx, l) == nil {
				t.Error("a lease of another lock was downgraded")
			}
		}
		inner := locktest.Got(t)(c.RWMutex("x").Lock(l.Context()))
		if err := c.RWMutex("x").Downgrade(ctx, l); err == nil {
			t.Error("downgraded under a writer that re-entered")
		}
		locktest.Unlock(t, inner)
		if err := c.RWMutex("x").Downgrade(ctx, l); err != nil {
			t.Error(err)
		}
		locktest.Unlock(t, l)
		locktest.Is(t, c.RWMutex("x").Downgrade(ctx, l), fencelock.ErrReleased)
	})
}

func TestDowngradeOfALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
		l := locktest.Got(t)(c.RWMutex("x", fencelock.MaxHold(time.Second)).Lock(ctx))
		locktest.Ended(t, l.Context())
		locktest.Is(t, c.RWMutex("x").Downgrade(ctx, l), fencelock.ErrLost, fencelock.LossMaxHold)

		l = locktest.Got(t)(c.RWMutex("x").Lock(ctx))
		if _, err := c.ForceUnlock(ctx, "x", l.Token()); err != nil {
			t.Fatal(err)
		}
		// The holder has not been notified yet: the answer must come from the store.
		locktest.Is(t, c.RWMutex("x").Downgrade(ctx, l), fencelock.ErrLost, fencelock.LossForceUnlock)
		synctest.Wait()
		locktest.Free(t, store, "x")

		l = locktest.Got(t)(c.RWMutex("x").Lock(ctx))
		store.StepClock(time.Hour) // the session has ended, and only the store knows
		locktest.Is(t, c.RWMutex("x").Downgrade(ctx, l), fencelock.ErrLost)
	})
}

func TestDowngradeTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		// The 2nd attempt is the first of the downgrade.
		c := locktest.Client(t, locktest.Faulty(t, store, `on(attempt, any(nth(2, lose(request)), nth(3, lose(reply)), nth(4, refuse)))`), nil)
		mu := c.RWMutex("x")
		l := locktest.Got(t)(mu.Lock(ctx))
		must.OK(t, mu.Downgrade(ctx, l))
		other := locktest.Client(t, store, nil).RWMutex("x")
		locktest.Unlock(t, locktest.Got(t)(other.TryRLock(ctx)), l)

		l = locktest.Got(t)(mu.Lock(ctx))
		short, cancel := context.WithCancel(ctx)
		cancel()
		locktest.Is(t, mu.Downgrade(short, l), context.Canceled)
		locktest.Unlock(t, l)
	})
}

// A downgrade that is delayed and lands after the unlock must not be taken for
// a new claim: its session lives on, and no client would give it back (K12).
func TestLateDowngradeLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		// The 2nd attempt is the downgrade; it lands 7 s after it was sent, its
		// caller has given up after 5 s (TTL/3) and asked again.
		mu := locktest.Client(t, locktest.Faulty(t, store, `on(attempt, nth(2, delay(7s, 0s)))`), nil).RWMutex("x")
		l := locktest.Got(t)(mu.Lock(ctx))
		must.OK(t, mu.Downgrade(ctx, l))
		locktest.Unlock(t, l)
		locktest.Free(t, store, "x")
		time.Sleep(10 * time.Second)
		locktest.Free(t, store, "x")
	})
}

func TestUpgradeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
		mu := c.RWMutex("x")
		r := locktest.Got(t)(mu.RLock(ctx))
		reading, cancel := context.WithTimeout(r.Context(), time.Hour)
		defer cancel()
		_, err := mu.Lock(reading)
		locktest.Is(t, err, fencelock.ErrUpgrade)
		_, err = mu.TryLock(reading)
		locktest.Is(t, err, fencelock.ErrUpgrade)
		_, err = c.Mutex("x").Lock(reading)
		locktest.Is(t, err, fencelock.ErrUpgrade)
		inner := locktest.Got(t)(mu.RLock(r.Context())) // reading again is fine
		if inner.Token() != r.Token() {
			t.Errorf("re-entered with token %v, want %v", inner.Token(), r.Token())
		}
		locktest.Unlock(t, inner, r)

		w := locktest.Got(t)(mu.Lock(ctx))
		locktest.Unlock(t, locktest.Got(t)(mu.RLock(w.Context())), locktest.Got(t)(mu.Lock(w.Context())))
		must.OK(t, mu.Downgrade(ctx, w))
		reading, cancel = context.WithTimeout(w.Context(), time.Hour)
		defer cancel()
		_, err = mu.Lock(reading)
		locktest.Is(t, err, fencelock.ErrUpgrade)
		locktest.Unlock(t, w)
		locktest.Free(t, store, "x")
	})
}
