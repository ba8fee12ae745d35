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
	"github.com/fencelock/fencelock/store/memstore"
)

// TestB5TryThatLosesTheOldLockLeavesNothing: an operator breaks the old lock while the new store grants the other.
func TestB5TryThatLosesTheOldLockLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(nil)
		broken := false
		tapped := &tap{Store: next, log: &callLog{}, before: func() {
			if !broken {
				broken = true
				breakOnly(t, old)
			}
		}}
		c := client(t, made(t, old, tapped))
		if _, err := c.Mutex(name).TryLock(t.Context()); !errors.Is(err, fencelock.ErrBusy) {
			t.Errorf("got %v, want busy", err)
		}
		mustBeFree(t, old, next)
	})
}

// TestB4FreshOldGrantIsNoConfirmation: another process may have held the old lock in between, with a higher token.
func TestB4FreshOldGrantIsNoConfirmation(t *testing.T) {
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
		req.Before = drv
		if drv, _, err = store.Open(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		between := session(t, old)
		mustBe(t, between, claim(1), driver.Granted)
		if _, err := between.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: name}); err != nil {
			t.Fatal(err)
		}
		mustBe(t, drv, claim(1), driver.Absent)
	})
}

// TestB5LateAnswerMakesNoRecord: an attempt that is answered after the withdrawal goes no further.
func TestB5LateAnswerMakesNoRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(nil)
		slow := faulty(t, old, "on(attempt, delay(1s, 0s))")
		drv := session(t, made(t, slow, next))
		answered := make(chan driver.State)
		go func() {
			out, err := drv.Attempt(context.Background(), claim(1))
			if err != nil {
				t.Error(err)
			}
			answered <- out.State
		}()
		synctest.Wait()
		if _, err := drv.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: name, Tombstone: true}); err != nil {
			t.Fatal(err)
		}
		if got := <-answered; got == driver.Granted {
			t.Error("a withdrawn claim was granted")
		}
		mustBeFree(t, next)
	})
}
