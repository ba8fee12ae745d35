// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/memstore"
)

func TestDowngradeLetsNoWriterIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		a, b, c := kindClient(t, store, nil).RWMutex("x"), kindClient(t, store, nil).RWMutex("x"), kindClient(t, store, nil).RWMutex("x")
		l := kindGot(t)(a.Lock(ctx))
		token := l.Token()
		// In line: a reader elsewhere, a reader here (it waits in this client),
		// a writer elsewhere, a reader behind it.
		readers := []*kindCall[*fencelock.Lease]{
			kindGo(func() (*fencelock.Lease, error) { return c.RLock(ctx) }),
			kindGo(func() (*fencelock.Lease, error) { return a.RLock(ctx) }),
		}
		writer := kindGo(func() (*fencelock.Lease, error) { return b.Lock(ctx) })
		last := kindGo(func() (*fencelock.Lease, error) { return kindClient(t, store, nil).RWMutex("x").RLock(ctx) })
		if err := a.Downgrade(ctx, l); err != nil {
			t.Fatal(err)
		}
		if l.Token() != token || !l.Valid() || l.Context().Err() != nil {
			t.Errorf("token %v, was %v; valid %v", l.Token(), token, l.Valid())
		}
		first := readers[0].now(t, "a reader at the front")
		writer.waits(t, "a reader holds since the downgrade")
		last.waits(t, "it came after the writer")
		readers[1].waits(t, "its claim came into the store's line after the writer's")
		kindBusy(t)(b.TryLock(ctx))
		kindUnlock(t, first)
		writer.waits(t, "the downgraded lease still reads")
		kindUnlock(t, l)
		w := writer.now(t, "all readers before it have gone")
		kindUnlock(t, w)
		kindUnlock(t, last.now(t, "after the writer"), readers[1].now(t, "after the writer"))
		kindFree(t, store, "x")
	})
}

func TestDowngradeLetsLocalReadersIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		mu := kindClient(t, store, nil).RWMutex("x")
		l := kindGot(t)(mu.Lock(ctx))
		reader := kindGo(func() (*fencelock.Lease, error) { return mu.RLock(ctx) })
		reader.waits(t, "the writer writes")
		for range 2 { // the second changes nothing
			if err := mu.Downgrade(ctx, l); err != nil {
				t.Fatal(err)
			}
		}
		r := reader.now(t, "it is a reader now")
		if r.Token() == l.Token() {
			t.Errorf("both readers have token %v", r.Token())
		}
		kindUnlock(t, l, r)
		kindFree(t, store, "x")
	})
}

func TestDowngradedLeaseOutlivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(&memstore.Options{Grace: true})
		a, b := kindClient(t, store, nil).RWMutex("x"), kindClient(t, store, nil).RWMutex("x")
		l := kindGot(t)(a.Lock(ctx))
		if err := a.Downgrade(ctx, l); err != nil {
			t.Fatal(err)
		}
		store.Forget()
		time.Sleep(2 * memstore.DefaultMaxTTL)
		if err := l.Err(); err != nil {
			t.Fatalf("the lease was not reclaimed: %v", err)
		}
		kindUnlock(t, kindGot(t)(b.TryRLock(ctx)))
		kindBusy(t)(b.TryLock(ctx))
		kindUnlock(t, l)
	})
}

func TestDowngradeRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		c, other := kindClient(t, store, nil), kindClient(t, store, nil)
		l := kindGot(t)(c.RWMutex("x").Lock(ctx))
		for _, mu := range []*fencelock.RWMutex{c.RWMutex("y"), other.RWMutex("x"), c.RWMutex("x", fencelock.MinHold(-1))} {
			if mu.Downgrade(ctx, l) == nil {
				t.Error("a lease of another lock was downgraded")
			}
		}
		inner := kindGot(t)(c.RWMutex("x").Lock(l.Context()))
		if err := c.RWMutex("x").Downgrade(ctx, l); err == nil {
			t.Error("downgraded under a writer that re-entered")
		}
		kindUnlock(t, inner)
		if err := c.RWMutex("x").Downgrade(ctx, l); err != nil {
			t.Error(err)
		}
		kindUnlock(t, l)
		kindIs(t, c.RWMutex("x").Downgrade(ctx, l), fencelock.ErrReleased)
	})
}

func TestDowngradeOfALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		c := kindClient(t, store, nil)
		l := kindGot(t)(c.RWMutex("x", fencelock.MaxHold(time.Second)).Lock(ctx))
		kindEnded(t, l.Context())
		kindIs(t, c.RWMutex("x").Downgrade(ctx, l), fencelock.ErrLost, fencelock.ErrExpired)

		l = kindGot(t)(c.RWMutex("x").Lock(ctx))
		if _, err := c.Break(ctx, "x", l.Token()); err != nil {
			t.Fatal(err)
		}
		// The holder has not been told yet: the store must say so.
		kindIs(t, c.RWMutex("x").Downgrade(ctx, l), fencelock.ErrLost, fencelock.ErrBroken)
		synctest.Wait()
		kindFree(t, store, "x")

		l = kindGot(t)(c.RWMutex("x").Lock(ctx))
		store.StepClock(time.Hour) // the session has ended, and only the store knows
		kindIs(t, c.RWMutex("x").Downgrade(ctx, l), fencelock.ErrLost)
	})
}

func TestDowngradeTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		// The 2nd attempt is the first of the downgrade.
		c := kindClient(t, kindFaulty(t, store, `on(attempt, any(nth(2, lose(request)), nth(3, lose(reply)), nth(4, refuse)))`), nil)
		mu := c.RWMutex("x")
		l := kindGot(t)(mu.Lock(ctx))
		if err := mu.Downgrade(ctx, l); err != nil {
			t.Fatal(err)
		}
		other := kindClient(t, store, nil).RWMutex("x")
		kindUnlock(t, kindGot(t)(other.TryRLock(ctx)), l)

		l = kindGot(t)(mu.Lock(ctx))
		short, cancel := context.WithCancel(ctx)
		cancel()
		kindIs(t, mu.Downgrade(short, l), context.Canceled)
		kindUnlock(t, l)
	})
}

// A downgrade that is delayed and lands after the unlock must not be taken for
// a new wish: its session lives on and nobody would ever give it back (K12).
func TestLateDowngradeLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		// The 2nd attempt is the downgrade; it lands 7 s after it was sent, its
		// caller has given up after 5 s (TTL/3) and asked again.
		mu := kindClient(t, kindFaulty(t, store, `on(attempt, nth(2, delay(7s, 0s)))`), nil).RWMutex("x")
		l := kindGot(t)(mu.Lock(ctx))
		if err := mu.Downgrade(ctx, l); err != nil {
			t.Fatal(err)
		}
		kindUnlock(t, l)
		kindFree(t, store, "x")
		time.Sleep(10 * time.Second)
		kindFree(t, store, "x")
	})
}

func TestUpgradeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		c := kindClient(t, store, nil)
		mu := c.RWMutex("x")
		r := kindGot(t)(mu.RLock(ctx))
		reading, cancel := context.WithTimeout(r.Context(), time.Hour)
		defer cancel()
		_, err := mu.Lock(reading)
		kindIs(t, err, fencelock.ErrUpgrade)
		_, err = mu.TryLock(reading)
		kindIs(t, err, fencelock.ErrUpgrade)
		_, err = c.Mutex("x").Lock(reading)
		kindIs(t, err, fencelock.ErrUpgrade)
		inner := kindGot(t)(mu.RLock(r.Context())) // reading again is fine
		if inner.Token() != r.Token() {
			t.Errorf("re-entered with token %v, want %v", inner.Token(), r.Token())
		}
		kindUnlock(t, inner, r)

		w := kindGot(t)(mu.Lock(ctx))
		kindUnlock(t, kindGot(t)(mu.RLock(w.Context())), kindGot(t)(mu.Lock(w.Context())))
		if err := mu.Downgrade(ctx, w); err != nil {
			t.Fatal(err)
		}
		reading, cancel = context.WithTimeout(w.Context(), time.Hour)
		defer cancel()
		_, err = mu.Lock(reading)
		kindIs(t, err, fencelock.ErrUpgrade)
		kindUnlock(t, w)
		kindFree(t, store, "x")
	})
}
