// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/clock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/testhook"
)

// TestCleanupSurvivesATimerThatIsAheadOfTheClock: a failed withdrawal is repeated
// even if its timer fires while the clock says that it is not due yet.
func TestCleanupSurvivesATimerThatIsAheadOfTheClock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		start := time.Now()
		var stopped, behind atomic.Int64 // since when the clock stands still, and by how much it is late
		awake := func() time.Duration {
			if at := stopped.Load(); at != 0 {
				return time.Duration(at)
			}
			return time.Since(start) - time.Duration(behind.Load())
		}
		made, err := testhook.NewClient(bent(t, store, "on(withdraw, any(nth(1, refuse), nth(2, refuse)))"), new(fencelock.Options),
			clock.NewFake(awake, func() time.Duration { return time.Duration(behind.Load()) }))
		must.OK(t, err)
		c := made.(*fencelock.Client)
		defer c.Close(t.Context())
		lock(t, c, "keeps the session")
		l := lock(t, c, "x")
		time.Sleep(time.Second)
		if err := l.Unlock(t.Context()); err == nil {
			t.Fatal("the withdrawal was refused, and the unlock confirmed")
		}
		synctest.Wait() // the cleanup has been refused too, and its timer runs
		stopped.Store(int64(time.Since(start)))
		time.Sleep(3 * time.Second)
		behind.Store(int64(3 * time.Second))
		stopped.Store(0)
		time.Sleep(5 * time.Second)
		wantClaims(t, store, "x", 0, 0)
	})
}
