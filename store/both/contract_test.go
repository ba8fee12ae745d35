// SPDX-License-Identifier: Apache-2.0

package both_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/both"
	"github.com/fencelock/fencelock/store/memstore"
)

// The tests of this file and of loss_test.go are named after the clauses of the package comment.

func TestB1OldLockIsTakenFirstWhateverTheDirection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log callLog
		noFence := func(c *driver.Caps) { c.Fencing, c.Floor = driver.NoFencing, false }
		old := &tap{Store: memstore.New(nil), name: "old", log: &log, caps: noFence}
		next := &tap{Store: memstore.New(nil), name: "next", log: &log, caps: noFence}
		c := client(t, made(t, old, next))
		unlock(t, lock(t, c))
		want := []string{"old attempt", "next attempt", "next withdraw", "old withdraw"}
		if got := log.take(); !slices.Equal(got, want) {
			t.Errorf("got the calls %v, want %v", got, want)
		}
	})
}

// phase is which stores a process uses.
type phase int

const (
	phaseOld phase = iota
	phaseBoth
	phaseNext
)

func (p phase) store(t *testing.T, old, next driver.Store) driver.Store {
	switch p {
	case phaseOld:
		return old
	case phaseNext:
		return next
	}
	return made(t, old, next)
}

// TestB2NoProcessHoldsBesideAnother also shows that no process waits forever (B1): the bubble ends only when
// all rounds are done.
func TestB2NoProcessHoldsBesideAnother(t *testing.T) {
	const faults = `any(prob(0.05, 3, refuse), prob(0.05, 5, delay(20ms, 20ms)), on(attempt, prob(0.05, 7, lose(reply))), on(withdraw, prob(0.05, 9, lose(reply))))`
	for what, phases := range map[string][]phase{
		"old and both":  {phaseOld, phaseOld, phaseBoth, phaseBoth},
		"both":          {phaseBoth, phaseBoth, phaseBoth},
		"both and next": {phaseBoth, phaseBoth, phaseNext, phaseNext},
	} {
		for _, fault := range []string{"none", faults} {
			t.Run(what+", "+fault[:4], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					old, next := memstore.New(nil), memstore.New(nil)
					var inside, rounds atomic.Int32
					var all sync.WaitGroup
					for _, p := range phases {
						c := client(t, p.store(t, faulty(t, old, fault), faulty(t, next, fault)))
						all.Go(func() {
							for range 30 {
								l := lock(t, c)
								if n := inside.Add(1); n != 1 && l.Valid() {
									t.Errorf("%d processes hold the lock", n)
								}
								<-time.After(time.Duration(rand.IntN(5)) * time.Millisecond)
								inside.Add(-1)
								rounds.Add(1)
								_ = l.Unlock(t.Context()) // what is not confirmed is repeated
							}
						})
					}
					all.Wait()
					if want := int32(30 * len(phases)); rounds.Load() != want {
						t.Errorf("got %d rounds, want %d", rounds.Load(), want)
					}
				})
			})
		}
	}
}

func TestB3TokensRiseThroughAllPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := durable(memstore.New(nil)), memstore.New(nil)
		procs := map[phase]*fencelock.Client{}
		for _, p := range []phase{phaseOld, phaseBoth, phaseNext} {
			procs[p] = client(t, p.store(t, old, next))
		}
		var last fencelock.Token
		step := func(p phase, times int) {
			for range times {
				l := lock(t, procs[p])
				if l.Token() <= last {
					t.Fatalf("phase %d got token %v after %v: a guard would reject it", p, l.Token(), last)
				}
				last = l.Token()
				unlock(t, l)
			}
		}
		step(phaseOld, 20) // the old store is far ahead of the next one
		step(phaseBoth, 3)
		step(phaseOld, 1) // a process that is not replaced yet
		step(phaseBoth, 1)
		step(phaseNext, 50)
		step(phaseBoth, 1) // and back
		step(phaseOld, 1)
		if g := procs[phaseBoth].Guarantees(); g.Fencing != driver.Strict {
			t.Errorf("got fencing %v, want strict", g.Fencing)
		}
	})
}

// TestB3WithoutFloorsThatLastFencingIsBestEffort: an old store that loses its data grants tokens below those
// that the new store has given out.
func TestB3WithoutFloorsThatLastFencingIsBestEffort(t *testing.T) {
	for what, c := range map[string]struct {
		old, next func(*driver.Caps)
		want      driver.Fencing
	}{
		"both have floors":       {nil, nil, driver.Strict},
		"the old store has none": {func(c *driver.Caps) { c.Floor = false }, nil, driver.BestEffort},
		"the new store has none": {nil, func(c *driver.Caps) { c.Floor = false }, driver.BestEffort},
		"old loses its data":     {func(c *driver.Caps) { c.Durability = driver.Volatile }, nil, driver.BestEffort},
		"old without tokens":     {func(c *driver.Caps) { c.Fencing = driver.NoFencing }, nil, driver.BestEffort},
		"new without tokens":     {nil, func(c *driver.Caps) { c.Fencing = driver.NoFencing }, driver.NoFencing},
	} {
		s := made(t, &tap{Store: durable(memstore.New(nil)), caps: c.old}, &tap{Store: memstore.New(nil), caps: c.next})
		if got := s.Caps().Fencing; got != c.want {
			t.Errorf("%s: got fencing %v, want %v", what, got, c.want)
		}
		_, err := fencelock.New(s, &fencelock.Options{Require: fencelock.Correctness})
		if err == nil {
			t.Errorf("%s: Require: Correctness was accepted", what)
		}
	}
}

func TestB4WaiterIsPushedThroughBothQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(nil)
		a, b, newOnly := client(t, made(t, old, next)), client(t, made(t, old, next)), client(t, next)
		holder, began := lock(t, a), time.Now()
		got := make(chan *fencelock.Lease)
		go func() { got <- lock(t, b) }()
		synctest.Wait()
		behind := make(chan *fencelock.Lease)
		go func() { behind <- lock(t, newOnly) }() // it is granted the next lock before b is
		synctest.Wait()
		unlock(t, holder)
		between := <-behind
		synctest.Wait()
		if n, _ := holders(t, old); n != 1 {
			t.Errorf("the waiter for the next lock does not hold the old one: %d holders", n)
		}
		if _, waiting := holders(t, next); waiting != 1 {
			t.Errorf("got %d waiters for the next lock, want 1", waiting)
		}
		unlock(t, between)
		unlock(t, <-got)
		if took := time.Since(began); took != 0 {
			t.Errorf("the handoffs took %v, want no poll", took)
		}
		mustBeFree(t, old, next)
	})
}

// waitsForNext returns a session whose claim 1 holds the old lock and waits for the next one, and what
// releases the next one. The claim may be changed before it is attempted.
func waitsForNext(t *testing.T, old, next driver.Store, change ...func(*driver.Claim)) (drv driver.Session, release func()) {
	t.Helper()
	holder := session(t, next)
	mustBe(t, holder, claim(1), driver.Granted)
	drv = session(t, made(t, old, next))
	c := claim(1)
	for _, f := range change {
		f(c)
	}
	mustBe(t, drv, c, driver.Queued)
	return drv, func() {
		if _, err := holder.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: name}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestB4OldLockIsConfirmedAfterAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(nil)
		noFloor := &tap{Store: old, log: &callLog{}, caps: func(c *driver.Caps) { c.Floor = false }} // which would be raised, and so asked
		drv, release := waitsForNext(t, noFloor, next)
		breakOnly(t, old)
		oldOnly := session(t, old)
		mustBe(t, oldOnly, claim(1), driver.Granted)
		release()
		if out, err := drv.Await(t.Context(), claim(1)); err != nil || out.State != driver.Absent {
			t.Errorf("Await returned %v, %v beside a process that holds the old lock; want absent", out.State, err)
		}
		mustBe(t, drv, claim(1), driver.Absent)
	})
}

// TestB4ClaimThatLostTheOldLockBeginsAgain: it must not wait for the old lock while it waits for the next
// one, or holds it.
func TestB4ClaimThatLostTheOldLockBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(nil)
		store := made(t, old, next)
		holder := session(t, next)
		mustBe(t, holder, claim(1), driver.Granted)
		req := driver.OpenRequest{Shard: store.Shard(name), ID: driver.NewSessionID(), TTL: 30 * time.Second}
		drv, _, err := store.Open(t.Context(), req)
		must.OK(t, err)
		mustBe(t, drv, claim(1), driver.Queued)
		old.Reset()
		mustBe(t, session(t, old), claim(1), driver.Granted) // a process in phase old is faster
		req.Before = drv
		if drv, _, err = store.Open(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		mustBe(t, drv, claim(1), driver.Absent)
		if found, err := drv.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: name}); err != nil || found != driver.WasQueued {
			t.Errorf("the withdrawal found it %v, %v; want queued", found, err)
		}
		if _, waiting := holders(t, next); waiting != 0 {
			t.Errorf("%d claims wait for the next lock, want none", waiting)
		}
	})
}

func TestB5TryGivesTheOldLockBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(nil)
		l := lock(t, client(t, next))
		c := client(t, made(t, old, next))
		if _, err := c.Mutex(name).TryLock(t.Context()); !errors.Is(err, fencelock.ErrBusy) {
			t.Errorf("got %v, want busy", err)
		}
		mustBeFree(t, old)
		unlock(t, l)
		l, err := c.Mutex(name).TryLock(t.Context())
		must.OK(t, err)
		unlock(t, l)
	})
}

func TestB5GivingUpLeavesNothingInEither(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(nil)
		blocker := map[string]*fencelock.Lease{"old": lock(t, client(t, old))}
		c := client(t, made(t, old, next))
		for _, at := range []string{"old", "next"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := c.Mutex(name).Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("waiting in the %s store: got %v, want the deadline", at, err)
			}
			cancel()
			unlock(t, blocker[at])
			synctest.Wait()
			<-time.After(time.Second)
			mustBeFree(t, old, next)
			if at == "old" {
				blocker["next"] = lock(t, client(t, next))
			}
		}
	})
}

// TestB5AttemptThatAwaitMadeIsTombstoned: the caller does not know that Await attempted the claim in the
// next store, so it does not ask for a tombstone.
func TestB5AttemptThatAwaitMadeIsTombstoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(nil)
		slow := faulty(t, next, "on(attempt, delay(2s, 0s))")
		oldOnly := session(t, old)
		mustBe(t, oldOnly, claim(1), driver.Granted)
		drv := session(t, made(t, old, slow))
		mustBe(t, drv, claim(1), driver.Queued)
		if _, err := oldOnly.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: name}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := drv.Await(ctx, claim(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want the deadline", err)
		}
		if _, err := drv.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: name}); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		slow.Wait()
		mustBeFree(t, old, next)
	})
}

func TestBadStoresAreErrors(t *testing.T) {
	mem := memstore.New(nil)
	for what, c := range map[string][2]driver.Store{
		"no old store":  {nil, mem},
		"no next store": {mem, nil},
		"the same":      {mem, mem},
		"no TTL for both": {
			memstore.New(&memstore.Options{MinTTL: 10 * time.Second}), memstore.New(&memstore.Options{MaxTTL: time.Second}),
		},
	} {
		if _, err := both.New(both.Stores{Old: c[0], New: c[1]}, nil); err == nil {
			t.Errorf("%s: got no error", what)
		}
	}
}
