// SPDX-License-Identifier: Apache-2.0

package both_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

const (
	// graceTime is that of the new store.
	graceTime = 40 * time.Second
	// maxBlocked is how long processes in phase both may keep one in phase old waiting in a grace period.
	maxBlocked = 200 * time.Millisecond
)

// longestLock locks and unlocks until the time is over, and returns the longest wait.
func longestLock(t *testing.T, c *fencelock.Client, during time.Duration) (longest time.Duration) {
	t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		began := time.Now()
		l := lock(t, c)
		longest = max(longest, time.Since(began))
		unlock(t, l)
	}
	return longest
}

// TestB12OldLockIsFreeDuringAGracePeriod: processes in phase old work on while the new store grants nothing, and those in
// phase both get the lock when it does again.
func TestB12OldLockIsFreeDuringAGracePeriod(t *testing.T) {
	for what, lose := range map[string]func(next *memstore.Store){
		"at the first use": func(next *memstore.Store) { next.Reset() },
		"while they wait":  func(next *memstore.Store) { time.AfterFunc(10*time.Second, next.Reset) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				old, next := memstore.New(nil), memstore.New(&memstore.Options{Grace: true, MaxTTL: graceTime})
				slow := func(store driver.Store) driver.Store { return faulty(t, store, "delay(10ms, 0s)") }
				lose(next)
				var all sync.WaitGroup
				for range 3 {
					c := client(t, made(t, slow(old), slow(next)))
					all.Go(func() {
						for end := time.Now().Add(graceTime + 20*time.Second); time.Now().Before(end); time.Sleep(time.Second) {
							l, err := c.Mutex(name).TryLock(t.Context())
							switch {
							case err == nil:
								_ = l.Unlock(t.Context()) // not confirmed, if the data was lost right now
							case !errors.Is(err, fencelock.ErrGrace) && !errors.Is(err, fencelock.ErrBusy):
								t.Error(err)
							}
							_ = lock(t, c).Unlock(t.Context())
						}
					})
				}
				if longest := longestLock(t, client(t, slow(old)), graceTime+20*time.Second); longest > maxBlocked {
					t.Errorf("a process in phase old waited for %v", longest)
				}
				all.Wait()
				time.Sleep(time.Minute) // what was not confirmed is repeated
				mustBeFree(t, old, next)
			})
		})
	}
}

// TestB12TryInAGracePeriodLeavesNothing: it says when the grace period ends, and leaves no claim.
func TestB12TryInAGracePeriodLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(&memstore.Options{Grace: true, MaxTTL: graceTime})
		c := client(t, made(t, old, next))
		unlock(t, lock(t, c))
		next.Reset()
		var grace *fencelock.GraceError
		if _, err := c.Mutex(name).TryLock(t.Context()); !errors.As(err, &grace) || grace.RetryAfter <= 0 || grace.RetryAfter > graceTime {
			t.Errorf("got %v", err)
		}
		mustBeFree(t, old, next)
		time.Sleep(graceTime)
		unlock(t, lock(t, c))
	})
}

// TestB12OldStoreIsNotAskedInAGracePeriod: a session asks the new store first whether it is in a grace period.
func TestB12OldStoreIsNotAskedInAGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := memstore.New(&memstore.Options{Grace: true, MaxTTL: graceTime})
		next.Reset()
		old := &tap{Store: memstore.New(nil), name: "old", log: &callLog{}}
		if _, err := client(t, made(t, old, next)).Mutex(name).TryLock(t.Context()); !errors.Is(err, fencelock.ErrGrace) {
			t.Errorf("got %v", err)
		}
		if calls := old.log.take(); len(calls) > 0 {
			t.Errorf("the old store got %v", calls)
		}
	})
}

// TestB12OldLockIsGivenBackInAGracePeriod: a store that does not say in time whether it is in a grace period is asked for the
// lock, and the old lock is not kept after its answer.
func TestB12OldLockIsGivenBackInAGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(&memstore.Options{Grace: true, MaxTTL: graceTime})
		next.Reset()
		c := client(t, made(t, old, faulty(t, next, "on(inspect, refuse)")))
		granted := make(chan *fencelock.Lease)
		go func() {
			l, err := c.Mutex(name).Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			granted <- l
		}()
		synctest.Wait()
		mustBeFree(t, old, next)
		unlock(t, <-granted)
	})
}

// TestB12ClaimThatWaitsGivesTheOldLockBack: one that holds the old lock, and waits for the new one, does not keep it when the
// new store lost its data. The same claim is granted after the grace period.
func TestB12ClaimThatWaitsGivesTheOldLockBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(&memstore.Options{Grace: true, MaxTTL: graceTime})
		store := made(t, old, next)
		holder := session(t, next)
		mustBe(t, holder, claim(1), driver.Granted)
		req := driver.OpenRequest{Shard: store.Shard(name), ID: driver.NewSessionID(), TTL: 30 * time.Second}
		drv, _, err := store.Open(t.Context(), req)
		must.OK(t, err)
		mustBe(t, drv, claim(1), driver.Queued)
		next.Reset()
		req.Before = drv
		if drv, _, err = store.Open(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if out := mustBe(t, drv, claim(1), driver.Busy); !out.Grace || out.PollAfter != graceTime {
			t.Errorf("got %+v", out)
		}
		mustBeFree(t, old, next)
		half, cancel := context.WithTimeout(t.Context(), graceTime/2)
		defer cancel()
		if _, err := drv.Await(half, claim(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v when the wait ended", err)
		}
		if _, err := drv.KeepAlive(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if out, err := drv.Await(t.Context(), claim(1)); err != nil || out.State != driver.Busy || time.Since(began) != graceTime/2 {
			t.Errorf("after %v: %v, %v", time.Since(began), out.State, err)
		}
		mustBe(t, drv, claim(1), driver.Granted)
	})
}

// TestB12LateAttemptIsTombstoned: an attempt that its caller has left may reach the old store after the claim was given back.
func TestB12LateAttemptIsTombstoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(&memstore.Options{Grace: true, MaxTTL: graceTime})
		store := made(t, faulty(t, old, "on(attempt, nth(1, delay(2s, 0s)))"), next)
		req := driver.OpenRequest{Shard: store.Shard(name), ID: driver.NewSessionID(), TTL: 30 * time.Second}
		drv, _, err := store.Open(t.Context(), req)
		must.OK(t, err)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := drv.Attempt(short, claim(1)); !errors.Is(err, driver.ErrUnknown) {
			t.Fatalf("got %v, want an unknown outcome", err)
		}
		next.Reset()
		req.Before = drv
		if drv, _, err = store.Open(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		mustBe(t, drv, claim(1), driver.Busy)
		time.Sleep(5 * time.Second)
		mustBeFree(t, old, next)
	})
}
