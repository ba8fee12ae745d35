// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestCallsArePaced: what fails or must be polled is asked again after a pause, which
// grows, and not as fast as the store answers.
func TestCallsArePaced(t *testing.T) {
	for name, tt := range map[string]struct {
		fault string
		op    faultstore.Op
		opts  memstore.Options
		most  int // calls in ten seconds
	}{
		"renewal":    {"on(keepalive, refuse)", faultstore.KeepAlive, memstore.Options{}, 60},
		"withdrawal": {"on(withdraw, refuse)", faultstore.Withdraw, memstore.Options{}, 60},
		"attempt":    {"on(attempt, refuse)", faultstore.Attempt, memstore.Options{}, 60},
		"poll":       {"on(open, delay(1ms, 0s))", faultstore.Attempt, memstore.Options{NoPush: true}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := memstore.New(&tt.opts)
				tp := tap(bent(t, store, tt.fault))
				c, other := newClient(t, tp, nil), newClient(t, store, nil)
				held := lock(t, other, "x")
				switch tt.op {
				case faultstore.KeepAlive:
					lock(t, c, "y")
				case faultstore.Withdraw:
					_ = lock(t, c, "y").Unlock(ctxb) // it is repeated in the background
				}
				ctx, cancel := context.WithTimeout(ctxb, 10*time.Second)
				defer cancel()
				if _, err := c.Mutex("x").Lock(ctx); err == nil {
					t.Fatal("locked")
				}
				if n := len(tp.Sent(tt.op)); n < 3 || n > tt.most {
					t.Errorf("%d calls in ten seconds, want a few", n)
				}
				unlock(t, held)
			})
		})
	}
}

// A store's hint to poll again at once is not followed as fast as the store answers.
func TestHintOfTheStoreMakesNoBusyLoop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		st := tap(m)
		st.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			out, err := next(ctx, c)
			out.PollAfter = 100 * time.Microsecond
			return out, err
		}
		held := lock(t, newClient(t, m, nil), "x")
		ctx, cancel := context.WithTimeout(ctxb, 10*time.Second)
		defer cancel()
		if _, err := newClient(t, st, nil).Mutex("x").Lock(ctx); err == nil {
			t.Fatal("locked")
		}
		if n := len(st.Sent(faultstore.Attempt)); n < 3 || n > 100 {
			t.Errorf("%d attempts in ten seconds, want a few", n)
		}
		unlock(t, held)
	})
}
