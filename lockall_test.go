// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/memstore"
)

func TestLockAllIsAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(&memstore.Options{Shards: 4})
		a, b := kindClient(t, store, nil), kindClient(t, store, kindOwner("b"))
		set, err := a.LockAll(ctx, []string{"c", "a", "b", "a"})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, l := range set.Leases() {
			names = append(names, l.Name())
			kindBusy(t)(b.Mutex(l.Name()).TryLock(ctx))
		}
		if !slices.Equal(names, []string{"a", "b", "c"}) || set.Lease("b").Name() != "b" || set.Lease("z") != nil || !set.Valid() {
			t.Errorf("leases of %v, valid %v", names, set.Valid())
		}
		for range 2 {
			if err := set.Unlock(ctx); err != nil {
				t.Error(err)
			}
		}
		kindIs(t, context.Cause(set.Context()), fencelock.ErrReleased)

		middle := kindGot(t)(b.Mutex("b").Lock(ctx))
		_, err = a.TryLockAll(ctx, names)
		busy := kindBusy(t)(nil, err)
		if busy.Name != "b" || len(busy.Holders) != 1 || busy.Holders[0].Record.Owner != "b" {
			t.Errorf("got %v, want b in the way of b", busy)
		}
		kindFree(t, store, "a")
		kindFree(t, store, "c")
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err = a.LockAll(short, names)
		kindIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		kindFree(t, store, "a")
		kindFree(t, store, "c")
		if st := kindStatus(t, store, "b"); st.Waiting != 0 {
			t.Errorf("%d claims were left in line", st.Waiting)
		}
		kindUnlock(t, middle)
	})
}

func TestLockAllRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		c := kindClient(t, store, nil)
		if _, err := c.LockAll(ctx, nil); err == nil {
			t.Error("locked nothing")
		}
		// Names are taken in order, so "a" is held when the bad one is found.
		if _, err := c.LockAll(ctx, []string{"b\n", "a"}); err == nil {
			t.Error("locked a bad name")
		}
		if _, err := c.LockAll(ctx, []string{"a", "b"}, fencelock.MaxHold(-1)); err == nil {
			t.Error("took a bad option")
		}
		kindFree(t, store, "a")
	})
}

// kindRefusing is a store that refuses one name for good.
type kindRefusing struct {
	driver.Store
	name string
}

func (s kindRefusing) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Life, error) {
	ss, life, err := s.Store.Open(ctx, req)
	return kindRefusingSession{ss, s.name}, life, err
}

type kindRefusingSession struct {
	driver.Session
	name string
}

func (s kindRefusingSession) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if c.Name == s.name {
		return driver.Outcome{}, driver.ErrRefused
	}
	return s.Session.Attempt(ctx, c)
}

func TestLockAllGivesBackAfterAFailureInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		c := kindClient(t, kindRefusing{store, "b"}, nil)
		for _, lock := range []func(context.Context, []string, ...fencelock.Option) (*fencelock.LeaseSet, error){c.LockAll, c.TryLockAll} {
			set, err := lock(ctx, []string{"a", "b", "c"})
			if set != nil {
				t.Error("got a set although one name was refused")
			}
			kindIs(t, err, driver.ErrRefused)
			for _, name := range []string{"a", "b", "c"} {
				kindFree(t, store, name)
			}
		}
	})
}

func TestLockAllDoesNotDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(&memstore.Options{Shards: 2})
		names := []string{"a", "b", "c", "d", "e"}
		inside := map[string]*atomic.Int64{}
		for _, n := range names {
			inside[n] = new(atomic.Int64)
		}
		var all sync.WaitGroup
		for p := range 3 {
			c := kindClient(t, store, nil)
			for g := range 3 {
				rng := rand.New(rand.NewPCG(uint64(p), uint64(g)))
				all.Go(func() {
					for range 30 {
						order := slices.Clone(names)
						rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
						order = order[:1+rng.IntN(len(order))]
						set, err := c.LockAll(ctx, order)
						if err != nil {
							t.Error(err)
							return
						}
						for _, n := range order {
							if inside[n].Add(1) != 1 {
								t.Errorf("%q has two holders", n)
							}
						}
						time.Sleep(10 * time.Millisecond)
						for _, n := range order {
							inside[n].Add(-1)
						}
						if err := set.Unlock(ctx); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
	})
}

func TestLockAllEndsWithItsFirstLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		c := kindClient(t, store, nil)
		set, err := c.LockAll(ctx, []string{"a", "b", "c"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Break(ctx, "b", set.Lease("b").Token()); err != nil {
			t.Fatal(err)
		}
		kindEnded(t, set.Context())
		kindIs(t, context.Cause(set.Context()), fencelock.ErrLost, fencelock.ErrBroken)
		if set.Valid() || !set.Lease("a").Valid() || !set.Lease("c").Valid() {
			t.Error("the set is valid, or more than b was lost")
		}
		kindBusy(t)(c.Mutex("a").TryLock(ctx))
		kindIs(t, set.Unlock(ctx), fencelock.ErrLost, fencelock.ErrBroken)
		for _, name := range []string{"a", "b", "c"} {
			kindFree(t, store, name)
		}
	})
}

func TestLockAllReentry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx := context.WithValue(kindContext(t), key{}, "kept")
		store := memstore.New(nil)
		c := kindClient(t, store, nil)
		set, err := c.LockAll(ctx, []string{"a", "b"})
		if err != nil {
			t.Fatal(err)
		}
		if set.Context().Value(key{}) != "kept" {
			t.Error("the set's context lost a value of the caller's")
		}
		inner := kindGot(t)(c.Mutex("a").TryLock(set.Context()))
		again, err := c.LockAll(set.Context(), []string{"b", "a"})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b"} {
			if got := fencelock.FromContext(set.Context(), name); got != set.Lease(name) {
				t.Errorf("the context carries %v for %q", got, name)
			}
			if again.Lease(name).Token() != set.Lease(name).Token() {
				t.Errorf("%q was re-entered with token %v, want %v", name, again.Lease(name).Token(), set.Lease(name).Token())
			}
		}
		kindUnlock(t, inner)
		if err := set.Unlock(ctx); err != nil {
			t.Error(err)
		}
		if len(kindStatus(t, store, "a").Holders) == 0 {
			t.Error("free although an inner set holds it")
		}
		if err := again.Unlock(ctx); err != nil {
			t.Error(err)
		}
		kindFree(t, store, "a")
		kindFree(t, store, "b")
	})
}
