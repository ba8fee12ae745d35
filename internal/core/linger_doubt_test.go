// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// A machine that was suspended past the trusted deadline does not hand out an idle lock, even
// if it may still linger by its own length: another process may have the lock.
func TestIdleLockIsNotTakenPastTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var n napper
		m := newStore()
		c := n.client(t, m)
		long := c.Mutex("x", fencelock.Linger(ttl))
		l, err := long.Lock(ctxb)
		must.OK(t, err)
		unlock(t, l)
		n.suspend(trust + time.Millisecond)
		again, err := long.Lock(ctxb)
		must.OK(t, err)
		if !again.Valid() || again.Token().Base() == l.Token().Base() {
			t.Errorf("the idle lock was taken again past its deadline: %v", again.Err())
		}
		unlock(t, again)
	})
}

// A grant of which an attempt may still be on its way is given back: it is in doubt.
func TestGrantInDoubtDoesNotLinger(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		c := newClient(t, bent(t, m, `on(attempt, nth(1, lose(reply)))`), nil)
		unlock(t, lock(t, c, "x", linger))
		wantClaims(t, m, "x", 0, 0)
	})
}

// A reader does not linger, so the record of a writer that became one must not show it: a try
// of another process would wait for a recall.
func TestDowngradeEndsTheLingering(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		c, other := newClient(t, m, nil), newClient(t, m, nil)
		l := lock(t, c, "x", linger)
		must.OK(t, c.RWMutex("x").Downgrade(ctxb, l))
		if h := status(t, m, "x").Holders[0]; h.Linger != 0 || h.Mode != driver.Shared {
			t.Errorf("the store shows %+v", h)
		}
		began := time.Now()
		_, err := other.Mutex("x").TryLock(ctxb)
		wantIs(t, "TryLock", err, fencelock.ErrBusy)
		wantNear(t, "TryLock returned", time.Now(), began)
		unlock(t, l)
	})
}

// In a grace period nothing is granted, whatever the holder gives back: a try does not wait
// for it.
func TestTryDoesNotWaitForARecallInTheGracePeriod(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := memstore.New(&memstore.Options{Grace: true, MaxTTL: ttl})
		c, other := newClient(t, m, nil), tap(m)
		l := lock(t, c, "x", linger)
		m.Reset()
		time.Sleep(renewal) // it is reclaimed
		synctest.Wait()
		seen := 0
		other.OnAttempt = func(ctx context.Context, claim *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			out, err := next(ctx, claim)
			if len(out.Holders) == 0 { // a store may name the holders that it knows already
				out.Holders = status(t, m, "x").Holders
			}
			if seen++; seen == 2 { // of the second try: the grace period began after this answer
				out.Grace = false
			}
			return out, err
		}
		began, c2 := time.Now(), newClient(t, other, nil)
		for range 2 {
			_, err := c2.Mutex("x").TryLock(ctxb)
			wantIs(t, "TryLock", err, fencelock.ErrGrace)
		}
		wantNear(t, "TryLock returned", time.Now(), began)
		unlock(t, l)
	})
}
