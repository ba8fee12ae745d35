// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
)

// A downgrade that the store answered leaves nothing in doubt: its unlock needs no
// tombstone, which the store would keep for as long as the session lives.
func TestDowngradeLeavesNoTombstone(t *testing.T) {
	for name, tt := range map[string]struct {
		fault      string
		tombstoned bool
	}{
		"answered":     {`on(close, delay(1s, 1s))`, false},
		"not answered": {`on(attempt, nth(2, lose(reply)))`, true},
		"refused":      {`on(attempt, nth(2, refuse))`, true}, // as every failed attempt
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				st := tap(bent(t, newStore(), tt.fault))
				rw := newClient(t, st, nil).RWMutex("x")
				l := write(t, rw)
				must.OK(t, rw.Downgrade(ctxb, l))
				unlock(t, l)
				if calls := st.Sent(faultstore.Withdraw); len(calls) != 1 || calls[0].Tombstone != tt.tombstoned {
					t.Errorf("withdrawals: %+v; want one, with tombstone %v", calls, tt.tombstoned)
				}
			})
		})
	}
}

func TestDowngradeUnderAnEndedContextSendsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := tap(newStore())
		rw := newClient(t, st, nil).RWMutex("x")
		l := write(t, rw)
		ctx, cancel := context.WithCancel(ctxb)
		cancel()
		wantIs(t, "Downgrade", rw.Downgrade(ctx, l), fencelock.ErrUnavailable, context.Canceled)
		unlock(t, l)
		if calls := st.Sent(faultstore.Attempt); len(calls) != 1 {
			t.Errorf("attempts: %+v; want only that of the lock", calls)
		}
		if calls := st.Sent(faultstore.Withdraw); len(calls) != 1 || calls[0].Tombstone {
			t.Errorf("withdrawals: %+v; want one without a tombstone", calls)
		}
	})
}

// A downgrade that failed left the store with a writer, perhaps. Calling it again
// asks the store again.
func TestDowngradeAfterAFailedOneAsksAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		st := tap(bent(t, m, `on(attempt, nth(2, lose(request)))`))
		c, other := newClient(t, st, nil), newClient(t, m, nil)
		rw := c.RWMutex("x")
		l := write(t, rw)
		ctx, cancel := context.WithTimeout(ctxb, time.Second)
		defer cancel()
		wantIs(t, "Downgrade", rw.Downgrade(ctx, l), fencelock.ErrUnavailable)
		reader := locktest.Go(func() (*fencelock.Lease, error) { return other.RWMutex("x").RLock(ctxb) })
		reader.Waits(t, "the store has a writer")
		for range 2 {
			must.OK(t, rw.Downgrade(ctxb, l))
		}
		if n := len(st.Sent(faultstore.Attempt)); n != 3 {
			t.Errorf("%d attempts; want 3: a downgrade that is confirmed is not sent again", n)
		}
		unlock(t, reader.Now(t, "the store has a reader"))
		unlock(t, l)
	})
}

// Two at once: neither says that the store has a reader before it has.
func TestConcurrentDowngradesBothWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		st := tap(m)
		st.OnAttempt = slowDowngrade
		rw := newClient(t, st, nil).RWMutex("x")
		l := write(t, rw)
		first := locktest.Go(locktest.Err(func() error { return rw.Downgrade(ctxb, l) }))
		second := locktest.Go(locktest.Err(func() error { return rw.Downgrade(ctxb, l) }))
		second.Waits(t, "the store has not answered")
		for _, d := range []*locktest.Call[struct{}]{first, second} {
			if _, err := d.Wait(); err != nil {
				t.Error(err)
			}
			if mode := status(t, m, "x").Holders[0].Mode; mode != driver.Shared {
				t.Errorf("Downgrade returned, and the store has it as %v", mode)
			}
		}
		unlock(t, l)
		wantClaims(t, m, "x", 0, 0)
	})
}
