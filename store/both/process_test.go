// SPDX-License-Identifier: Apache-2.0

package both_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestWaiterIsGrantedTheLocksOfADeadProcess in either phase of its waiting.
func TestWaiterIsGrantedTheLocksOfADeadProcess(t *testing.T) {
	for _, p := range []phase{phaseOld, phaseBoth, phaseNext} {
		synctest.Test(t, func(t *testing.T) {
			old, next := memstore.New(nil), memstore.New(nil)
			mustBe(t, session(t, p.store(t, old, next)), claim(1), driver.Granted) // it is not kept alive
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			l, err := client(t, made(t, old, next)).Mutex(name).Lock(ctx)
			if err != nil {
				t.Fatalf("phase %d: %v", p, err)
			}
			unlock(t, l)
			mustBeFree(t, old, next)
		})
	}
}

// TestReversedStoresLeaveNothingBehind: two processes were given the stores in different order, and each holds what the other
// waits for, until one of them gives up.
func TestReversedStoresLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memstore.New(nil), memstore.New(nil)
		wrong := session(t, made(t, b, a))
		taken := false
		second := &tap{Store: b, log: &callLog{}, before: func() {
			if !taken {
				taken = true
				mustBe(t, wrong, claim(1), driver.Queued) // it holds b, and waits for a
			}
		}}
		right := session(t, made(t, a, second))
		mustBe(t, right, claim(1), driver.Queued)
		withdraw := func(drv driver.Session) {
			if _, err := drv.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		withdraw(right)
		mustBe(t, wrong, claim(1), driver.Granted)
		withdraw(wrong)
		mustBeFree(t, a, b)
	})
}

func TestLimitIsStoredInBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(nil)
		must.OK(t, made(t, old, next).SetLimit(t.Context(), name, 3))
		for i, s := range []driver.Store{old, next} {
			if st, err := s.Inspect(t.Context(), name); err != nil || st.Limit != 3 {
				t.Errorf("store %d has limit %d, %v; want 3", i, st.Limit, err)
			}
		}
	})
}

// TestIdleHolderIsNotifiedByAWaiterOfEitherPhase: a lock that lingers is given back to a process in phase old or new.
func TestIdleHolderIsNotifiedByAWaiterOfEitherPhase(t *testing.T) {
	for _, p := range []phase{phaseOld, phaseBoth, phaseNext} {
		synctest.Test(t, func(t *testing.T) {
			old, next := memstore.New(nil), memstore.New(nil)
			l, err := client(t, made(t, old, next)).Mutex(name, fencelock.Linger(10*time.Second)).Lock(t.Context())
			must.OK(t, err)
			unlock(t, l) // the lock stays taken, and idle
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			other, err := client(t, p.store(t, old, next)).Mutex(name).Lock(ctx)
			if err != nil {
				t.Fatalf("phase %d: %v", p, err)
			}
			unlock(t, other)
		})
	}
}
