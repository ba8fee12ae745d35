// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/store/faultstore"
)

// The request for notices is about a grant. If the store has it no more, a queued claim would
// be one that no caller waits for.
func TestRequestForNoticesQueuesNoClaim(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := tap(newStore())
		var queue []bool
		st.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			queue = append(queue, c.Queue)
			return next(ctx, c)
		}
		l := lock(t, newClient(t, st, nil), "x")
		l.Contended()
		synctest.Wait()
		if len(queue) != 2 || !queue[0] || queue[1] {
			t.Errorf("Queue of the attempts: %v; want that of the lock only", queue)
		}
		unlock(t, l)
	})
}

// A request for notices that was not answered may come to the store after the unlock, even if
// it was repeated: the withdrawal leaves a tombstone.
func TestUnansweredRequestForNoticesIsNotGrantedLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		st, n := tap(m), 0
		late := func() {}
		st.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			if n++; n == 2 {
				claim := *c
				late = func() { _, _ = next(ctxb, &claim) }
				return driver.Outcome{}, driver.ErrUnknown
			}
			return next(ctx, c)
		}
		c := newClient(t, st, nil)
		l := lock(t, c, "x")
		l.Contended()
		for len(st.Sent(faultstore.Attempt)) < 3 {
			time.Sleep(trust / 100)
		}
		synctest.Wait()
		unlock(t, l)
		if calls := st.Sent(faultstore.Withdraw); len(calls) != 1 || !calls[0].Tombstone {
			t.Errorf("withdrawals: %+v; want one with a tombstone", calls)
		}
		late()
		wantClaims(t, m, "x", 0, 0)
	})
}
