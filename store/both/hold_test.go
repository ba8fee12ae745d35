// SPDX-License-Identifier: Apache-2.0

package both_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestB9GivingUpLeavesNoMinHold: a claim that was never granted by both keeps no lock taken.
func TestB9GivingUpLeavesNoMinHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(nil)
		l := lock(t, client(t, next))
		c := client(t, made(t, old, next))
		if _, err := c.Mutex(name, fencelock.MinHold(time.Hour)).TryLock(t.Context()); !errors.Is(err, fencelock.ErrBusy) {
			t.Fatalf("got %v, want busy", err)
		}
		mustBeFree(t, old)
		drv := session(t, made(t, old, next))
		waits := claim(1)
		waits.Terms.MinHold = time.Hour
		mustBe(t, drv, waits, driver.Queued)
		if _, err := drv.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: name}); err != nil {
			t.Fatal(err)
		}
		mustBeFree(t, old)
		unlock(t, l)
	})
}

func TestB9MinHoldCountsFromTheCommonGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(nil)
		l := lock(t, client(t, next))
		c := client(t, made(t, old, next))
		got := make(chan *fencelock.Lease)
		go func() {
			l, err := c.Mutex(name, fencelock.MinHold(time.Minute)).Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		<-time.After(50 * time.Second) // it holds the old lock
		unlock(t, l)
		unlock(t, <-got)
		<-time.After(time.Minute - time.Second)
		for i, s := range []driver.Store{old, next} {
			if n, _ := holders(t, s); n != 1 {
				t.Errorf("store %d does not keep the lock for the MinHold", i)
			}
		}
		<-time.After(2 * time.Second)
		mustBeFree(t, old, next)
	})
}

func TestB9MaxHoldCountsFromTheCommonGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hold = 10 * time.Second
		old, next := memstore.New(nil), memstore.New(nil)
		drv, release := waitsForNext(t, old, next, func(c *driver.Claim) { c.Terms.MaxHold = hold })
		<-time.After(2 * hold)
		if n, _ := holders(t, old); n != 1 {
			t.Fatal("the old lock ended while the claim waited for the new one")
		}
		release()
		c := claim(1)
		c.Terms.MaxHold = hold
		if out := mustBe(t, drv, c, driver.Granted); out.Remaining != hold {
			t.Errorf("%v remain of the MaxHold, want all of %v", out.Remaining, hold)
		}
		<-time.After(hold - time.Millisecond)
		if n, _ := holders(t, old); n != 1 {
			t.Error("the old grant ended before its MaxHold")
		}
		<-time.After(2 * time.Millisecond)
		synctest.Wait()
		mustBeFree(t, old, next)
	})
}
