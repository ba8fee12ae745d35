// SPDX-License-Identifier: Apache-2.0

package both_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/both"
	"github.com/fencelock/fencelock/store/memstore"
)

// lossyBreak is a store whose first Break loses its reply.
type lossyBreak struct {
	driver.Store
	lost bool
}

func (s *lossyBreak) Break(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	fence, err := s.Store.Break(ctx, name, token)
	if !s.lost {
		s.lost = true
		return 0, driver.ErrUnknown
	}
	return fence, err
}

func TestB10BreakWhoseReplyWasLostCanBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(nil)
		store := made(t, &lossyBreak{Store: old}, next)
		l := lock(t, client(t, store))
		if _, err := store.Break(t.Context(), name, l.Token()); !errors.Is(err, driver.ErrUnknown) {
			t.Fatalf("got %v, want an unknown outcome", err)
		}
		fence, err := store.Break(t.Context(), name, l.Token())
		if err != nil || fence <= l.Token() {
			t.Errorf("the second Break returned %v, %v; want a token above %v", fence, err, l.Token())
		}
		mustBeFree(t, old, next)
		lost(t, l)
	})
}

// TestB10FenceIsBelowTheTokensOfAllPhases: whichever store is ahead, its later tokens and those of the other are admitted by
// a guard that was fenced.
func TestB10FenceIsBelowTheTokensOfAllPhases(t *testing.T) {
	for ahead, what := range []string{"old", "new"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mems := []*memstore.Store{memstore.New(nil), memstore.New(nil)}
				store := made(t, mems[0], mems[1])
				l := lock(t, client(t, store))
				far := client(t, mems[ahead])
				for range 20 { // tokens of a store rise over all its names
					other, err := far.Mutex("other").Lock(t.Context())
					must.OK(t, err)
					unlock(t, other)
				}
				fence, err := store.Break(t.Context(), name, l.Token())
				if err != nil || fence <= l.Token() {
					t.Fatalf("got %v, %v; want a token above %v", fence, err, l.Token())
				}
				lost(t, l)
				mustBeFree(t, mems[0], mems[1])
				for i, m := range mems {
					l := lock(t, client(t, m))
					if l.Token() <= fence {
						t.Errorf("store %d granted token %v, not above the fence %v", i, l.Token(), fence)
					}
					unlock(t, l)
				}
			})
		})
	}
}

func TestB10BreakInAnOldStoreThatCannot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(nil)
		store := made(t, unbreakable{old}, next)
		l := lock(t, client(t, store))
		if fence, err := store.Break(t.Context(), name, l.Token()); err != nil || fence <= l.Token() {
			t.Errorf("got %v, %v; want a token above %v", fence, err, l.Token())
		}
		lost(t, l)
		synctest.Wait()
		mustBeFree(t, old, next)
	})
}

// unbreakable is a store that cannot break locks.
type unbreakable struct{ driver.Store }

func (unbreakable) Break(context.Context, string, driver.Token) (driver.Token, error) {
	return 0, driver.ErrUnsupported
}

// TestInspectShowsAHalfwayClaimAsAWaiter: in a new store without a queue nothing but the old lock shows the claim, and its
// token there is not one that a guard knows.
func TestInspectShowsAHalfwayClaimAsAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(&memstore.Options{NoQueue: true})
		holder := lock(t, client(t, next))
		mustBe(t, session(t, made(t, old, next)), claim(1), driver.Busy)
		st, err := made(t, old, next).Inspect(t.Context(), name)
		if err != nil || len(st.Holders) != 1 || st.Holders[0].Token != holder.Token() || st.Waiting != 1 || len(st.Waiters) != 1 {
			t.Errorf("got %+v, %v; want the holder of the new lock and one waiter", st, err)
		}
	})
}

// TestB11MarkSurvivesALossBeforeTheReply: a store executes the withdrawal, loses its data, and the reply arrives.
func TestB11MarkSurvivesALossBeforeTheReply(t *testing.T) {
	for side, what := range []string{"old", "new"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				grace := &memstore.Options{Grace: true}
				mems := []*memstore.Store{memstore.New(grace), memstore.New(grace)}
				stores := []driver.Store{mems[0], mems[1]}
				done := false
				// The old store is asked last, so its answer is the one that a loss can come before in either.
				stores[0] = &tap{Store: mems[0], log: &callLog{}, after: func() {
					if !done {
						done = true
						mems[side].Reset()
						<-time.After(fencelock.DefaultTTL / 2) // the session finds out, and reclaims
					}
				}}
				c := client(t, made(t, stores[0], stores[1]))
				run, err := c.Once("nightly", time.Hour).Do(t.Context(), "2026-11-16", func(context.Context, *fencelock.Lease) error { return nil })
				if err != nil && !errors.Is(err, fencelock.ErrReleased) { // the reply came late, and the unlock is repeated
					t.Fatal(run, err)
				}
				<-time.After(fencelock.DefaultTTL)
				for i, m := range mems {
					page, err := m.List(t.Context(), driver.ListQuery{Max: 10})
					if err != nil || len(page.Locks) != 1 || len(page.Locks[0].Holders) != 1 || !page.Locks[0].Holders[0].Kept {
						t.Errorf("store %d has %+v, %v; want the mark", i, page.Locks, err)
					}
				}
			})
		})
	}
}

// TestStoresThatCannotBeComparedAreAccepted: a struct with an interface in it is comparable by its type, and may not be.
func TestStoresThatCannotBeComparedAreAccepted(t *testing.T) {
	type list struct {
		driver.Store
		_ []int // not comparable
	}
	type wrapper struct{ driver.Store }
	store := wrapper{list{Store: memstore.New(nil)}}
	if _, err := both.New(both.Stores{Old: store, New: store}, nil); err != nil {
		t.Error(err)
	}
}

// TestBusyTryDoesNotWaitForTheTokensOfASilentStore: the old store has answered.
func TestBusyTryDoesNotWaitForTheTokensOfASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(nil)
		l := lock(t, client(t, old))
		c := client(t, made(t, old, faulty(t, next, "on(inspect, lose(request))")))
		began := time.Now()
		if _, err := c.Mutex(name).TryLock(t.Context()); !errors.Is(err, fencelock.ErrBusy) {
			t.Errorf("got %v, want busy", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		unlock(t, l)
	})
}
