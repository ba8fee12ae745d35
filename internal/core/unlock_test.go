// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
)

// A second Unlock must not say that the lock is free while the first is still
// waiting to hear of it.
func TestUnlockDuringUnlockReturnsTheSameAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		fault string
		want  error
	}{
		"confirmed":   {`on(withdraw, delay(1s, 1s))`, nil},
		"unconfirmed": {`on(withdraw, nth(1, lose(request)))`, fencelock.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newStore()
				c := newClient(t, bent(t, m, tt.fault), nil)
				l := lock(t, c, "x")
				first := locktest.Go(locktest.Err(func() error { return l.Unlock(ctxb) }))
				second := locktest.Go(locktest.Err(func() error { return l.Unlock(ctxb) }))
				third := locktest.Go(locktest.Err(func() error { return l.Unlock(ctxb) }))
				wantClaims(t, m, "x", 1, 0)
				second.Waits(t, "the first waits")
				_, err := first.Wait()
				for _, again := range []*locktest.Call[struct{}]{second, third} {
					if _, got := again.Wait(); got != err {
						t.Errorf("the first Unlock returned %v, the second %v", err, got)
					}
				}
				if again := l.Unlock(ctxb); again != err {
					t.Errorf("then %v, before %v", again, err)
				}
				if tt.want == nil && err != nil {
					t.Errorf("Unlock: %v", err)
				} else if tt.want != nil {
					wantIs(t, "Unlock", err, tt.want)
				}
			})
		})
	}
}

func TestUnlockDuringUnlockEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, bent(t, newStore(), `on(withdraw, delay(2s, 2s))`), nil)
		l := lock(t, c, "x")
		first := locktest.Go(locktest.Err(func() error { return l.Unlock(ctxb) }))
		ctx, cancel := context.WithTimeout(ctxb, time.Second)
		defer cancel()
		began := time.Now()
		err := l.Unlock(ctx)
		wantIs(t, "Unlock", err, fencelock.ErrReleased, context.DeadlineExceeded)
		if took := time.Since(began); took != time.Second {
			t.Errorf("waited %v, under a context of 1s", took)
		}
		if _, err := first.Wait(); err != nil {
			t.Errorf("the first: %v", err)
		}
		if err := l.Unlock(ctx); err != nil {
			t.Errorf("again: %v", err)
		}
	})
}

// A client library that sends a command again hides nothing: the lease was broken,
// and another holds the lock.
func TestRepeatedWithdrawalHidesNoBreak(t *testing.T) {
	for name, fault := range map[string]string{"twice": `on(withdraw, dup)`, "once": `on(close, dup)`} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newStore()
				c, other := newClient(t, bent(t, m, fault), nil), newClient(t, m, nil)
				l := lock(t, c, "x")
				if _, err := m.Break(ctxb, "x", l.Token()); err != nil {
					t.Fatal(err)
				}
				next := lock(t, other, "x")
				wantIs(t, "Unlock", l.Unlock(ctxb), fencelock.ErrLost, fencelock.LossForceUnlock)
				unlock(t, next)
				unlock(t, lock(t, c, "x")) // one that was not broken
			})
		})
	}
}

// A local handoff makes no call, so the unlock cannot know of a break. The next
// holder learns of it at the renewal.
func TestHandoffIsNotCheckedWithTheStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		c, other := newClient(t, m, nil), newClient(t, m, nil)
		l := lock(t, c, "x")
		w := start(ctxb, c.Mutex("x"))
		fence, err := m.Break(ctxb, "x", l.Token())
		must.OK(t, err)
		unlock(t, l)
		next := w.wait(t, 0)
		if next.Token() >= fence {
			t.Errorf("token %v of the broken grant, not below the fence %v", next.Token(), fence)
		}
		elsewhere := lock(t, other, "x")
		<-next.Context().Done()
		wantIs(t, "cause", context.Cause(next.Context()), fencelock.ErrLost, fencelock.LossForceUnlock)
		wantIs(t, "Unlock", next.Unlock(ctxb), fencelock.ErrLost, fencelock.LossForceUnlock)
		unlock(t, elsewhere)
	})
}
