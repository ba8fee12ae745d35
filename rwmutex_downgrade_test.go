// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/store/memstore"
)

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
		if err := a.Downgrade(ctx, l); err != nil {
			t.Fatal(err)
		}
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
			if err := mu.Downgrade(ctx, l); err != nil {
				t.Fatal(err)
			}
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
		if err := a.Downgrade(ctx, l); err != nil {
			t.Fatal(err)
		}
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
		locktest.Is(t, c.RWMutex("x").Downgrade(ctx, l), fencelock.ErrLost, fencelock.ErrExpired)

		l = locktest.Got(t)(c.RWMutex("x").Lock(ctx))
		if _, err := c.Break(ctx, "x", l.Token()); err != nil {
			t.Fatal(err)
		}
		// The holder has not been notified yet: the answer must come from the store.
		locktest.Is(t, c.RWMutex("x").Downgrade(ctx, l), fencelock.ErrLost, fencelock.ErrBroken)
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
		if err := mu.Downgrade(ctx, l); err != nil {
			t.Fatal(err)
		}
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
		if err := mu.Downgrade(ctx, l); err != nil {
			t.Fatal(err)
		}
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
		if err := mu.Downgrade(ctx, w); err != nil {
			t.Fatal(err)
		}
		reading, cancel = context.WithTimeout(w.Context(), time.Hour)
		defer cancel()
		_, err = mu.Lock(reading)
		locktest.Is(t, err, fencelock.ErrUpgrade)
		locktest.Unlock(t, w)
		locktest.Free(t, store, "x")
	})
}
