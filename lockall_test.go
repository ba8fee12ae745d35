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
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

func TestLockAllIsAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(&memstore.Options{Shards: 4})
		a, b := locktest.Client(t, store, nil), locktest.Client(t, store, locktest.Owner("b"))
		set, err := a.LockAll(ctx, []string{"c", "a", "b", "a"})
		must.OK(t, err)
		var names []string
		for _, l := range set.Leases() {
			names = append(names, l.Name())
			locktest.Busy(t)(b.Mutex(l.Name()).TryLock(ctx))
		}
		if !slices.Equal(names, []string{"a", "b", "c"}) || set.Lease("b").Name() != "b" || set.Lease("z") != nil || !set.Valid() {
			t.Errorf("leases of %v, valid %v", names, set.Valid())
		}
		for range 2 {
			if err := set.Unlock(ctx); err != nil {
				t.Error(err)
			}
		}
		locktest.Is(t, context.Cause(set.Context()), fencelock.ErrReleased)

		middle := locktest.Got(t)(b.Mutex("b").Lock(ctx))
		_, err = a.TryLockAll(ctx, names)
		busy := locktest.Busy(t)(nil, err)
		if busy.Name != "b" || len(busy.Holders) != 1 || busy.Holders[0].Record.Owner != "b" {
			t.Errorf("got %v, want b in the way of b", busy)
		}
		locktest.Free(t, store, "a")
		locktest.Free(t, store, "c")
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err = a.LockAll(short, names)
		locktest.Is(t, err, context.DeadlineExceeded)
		synctest.Wait()
		locktest.Free(t, store, "a")
		locktest.Free(t, store, "c")
		if st := locktest.Status(t, store, "b"); st.Waiting != 0 {
			t.Errorf("%d claims were left in line", st.Waiting)
		}
		locktest.Unlock(t, middle)
	})
}

func TestLockAllRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
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
		locktest.Free(t, store, "a")
	})
}

func TestLockAllGivesBackAfterAFailureInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		refusing := locktest.NewTap(store)
		refusing.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			if c.Name == "b" {
				return driver.Outcome{}, driver.ErrRefused
			}
			return next(ctx, c)
		}
		c := locktest.Client(t, refusing, nil)
		for _, lock := range []func(context.Context, []string, ...fencelock.LockOption) (*fencelock.LeaseSet, error){c.LockAll, c.TryLockAll} {
			set, err := lock(ctx, []string{"a", "b", "c"})
			if set != nil {
				t.Error("got a set although one name was refused")
			}
			locktest.Is(t, err, driver.ErrRefused)
			for _, name := range []string{"a", "b", "c"} {
				locktest.Free(t, store, name)
			}
		}
	})
}

func TestLockAllDoesNotDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(&memstore.Options{Shards: 2})
		names := []string{"a", "b", "c", "d", "e"}
		inside := map[string]*atomic.Int64{}
		for _, n := range names {
			inside[n] = new(atomic.Int64)
		}
		var all sync.WaitGroup
		for p := range 3 {
			c := locktest.Client(t, store, nil)
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
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
		set, err := c.LockAll(ctx, []string{"a", "b", "c"})
		must.OK(t, err)
		if _, err := c.ForceUnlock(ctx, "b", set.Lease("b").Token()); err != nil {
			t.Fatal(err)
		}
		locktest.Ended(t, set.Context())
		locktest.Is(t, context.Cause(set.Context()), fencelock.ErrLost, fencelock.LossForceUnlock)
		if set.Valid() || !set.Lease("a").Valid() || !set.Lease("c").Valid() {
			t.Error("the set is valid, or more than b was lost")
		}
		locktest.Busy(t)(c.Mutex("a").TryLock(ctx))
		locktest.Is(t, set.Unlock(ctx), fencelock.ErrLost, fencelock.LossForceUnlock)
		for _, name := range []string{"a", "b", "c"} {
			locktest.Free(t, store, name)
		}
	})
}

func TestLockAllReentry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx := context.WithValue(locktest.Context(t), key{}, "kept")
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
		set, err := c.LockAll(ctx, []string{"a", "b"})
		must.OK(t, err)
		if set.Context().Value(key{}) != "kept" {
			t.Error("the set's context lost a value of the caller's")
		}
		inner := locktest.Got(t)(c.Mutex("a").TryLock(set.Context()))
		again, err := c.LockAll(set.Context(), []string{"b", "a"})
		must.OK(t, err)
		for _, name := range []string{"a", "b"} {
			if got := fencelock.FromContext(set.Context(), name); got != set.Lease(name) {
				t.Errorf("the context carries %v for %q", got, name)
			}
			if again.Lease(name).Token() != set.Lease(name).Token() {
				t.Errorf("%q was re-entered with token %v, want %v", name, again.Lease(name).Token(), set.Lease(name).Token())
			}
		}
		locktest.Unlock(t, inner)
		if err := set.Unlock(ctx); err != nil {
			t.Error(err)
		}
		if len(locktest.Status(t, store, "a").Holders) == 0 {
			t.Error("free although an inner set holds it")
		}
		if err := again.Unlock(ctx); err != nil {
			t.Error(err)
		}
		locktest.Free(t, store, "a")
		locktest.Free(t, store, "b")
	})
}
