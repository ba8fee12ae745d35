// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
)

func TestUnlockOnACanceledContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		c := newClient(t, bent(t, m, `on(withdraw, delay(1s, 0s))`), nil)
		lock(t, c, "other") // the session lives on
		ctx, cancel := context.WithCancel(ctxb)
		l, err := c.Mutex("a").Lock(ctx)
		must.OK(t, err)
		cancel()
		if err := l.Unlock(ctx); err != nil {
			t.Errorf("Unlock on a canceled context: %v", err)
		}
		wantClaims(t, m, "a", 0, 0)
	})
}

// TestUnlockWaitsAsLongAsItsContextAllows (K9): Unlock returns when its context ends,
// and the lock is released anyway.
func TestUnlockWaitsAsLongAsItsContextAllows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		c := newClient(t, bent(t, m, `on(withdraw, delay(2s, 0s))`), nil)
		lock(t, c, "other") // the session lives on
		l := lock(t, c, "a")
		began := time.Now()
		err := within(100*time.Millisecond, func(ctx context.Context) error { return l.Unlock(ctx) })
		wantIs(t, "Unlock", err, fencelock.ErrReleased, context.DeadlineExceeded)
		if waited := time.Since(began); waited != 100*time.Millisecond {
			t.Errorf("Unlock returned after %v, want the 100ms of its context", waited)
		}
		if errors.Is(err, fencelock.ErrUnavailable) {
			t.Errorf("%v: the store is not to blame", err)
		}
		time.Sleep(ttl)
		wantClaims(t, m, "a", 0, 0)
	})
}

// lateTimer is a context whose deadline has come and whose timer has not fired yet.
type lateTimer struct {
	context.Context
	end time.Time
}

func (c lateTimer) Deadline() (time.Time, bool) { return c.end, true }

// TestUnlockWhoseDeadlineHasComeBlamesNoStore: a connection that was given the deadline
// of the context times out before the context says so.
func TestUnlockWhoseDeadlineHasComeBlamesNoStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, bent(t, newStore(), `on(withdraw, nth(1, lose(reply)))`), nil)
		lock(t, c, "other") // the session lives on
		err := lock(t, c, "a").Unlock(lateTimer{ctxb, time.Now().Add(time.Millisecond)})
		wantIs(t, "Unlock", err, fencelock.ErrReleased, context.DeadlineExceeded)
		if errors.Is(err, fencelock.ErrUnavailable) {
			t.Errorf("%v: the store is not to blame", err)
		}
	})
}

// TestUnlockUnderTheContextOfItsLease (K9): the context ends by the unlock itself. That
// must not cut the call short.
func TestUnlockUnderTheContextOfItsLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, bent(t, newStore(), `on(withdraw, delay(1s, 0s))`), nil)
		lock(t, c, "other") // the session lives on
		for name, unlock := range map[string]func(l *fencelock.Lease) error{
			"Context": func(l *fencelock.Lease) error { return l.Unlock(l.Context()) },
			"below Context": func(l *fencelock.Lease) error {
				ctx, cancel := context.WithTimeout(l.Context(), time.Minute)
				defer cancel()
				return l.Unlock(ctx)
			},
			"WithContext": func(l *fencelock.Lease) error {
				ctx, cancel := l.WithContext(ctxb)
				defer cancel()
				return l.Unlock(ctx)
			},
		} {
			if err := unlock(lock(t, c, name)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := c.Do(ctxb, "do", locktest.Nothing); err != nil {
			t.Errorf("Do: %v", err)
		}
	})
}

func TestGivingUpWhileQueuedLeavesNothingBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		a, b, other := newClient(t, m, nil), newClient(t, m, nil), newClient(t, m, nil)
		l := lock(t, a, "x")
		lock(t, b, "keeps its session alive")
		ctx, cancel := context.WithTimeout(ctxb, time.Second)
		defer cancel()
		w := start(ctx, b.Mutex("x"))
		wantClaims(t, m, "x", 1, 1)
		time.Sleep(time.Second)
		if !w.over() {
			t.Fatal("waits on after its context ended")
		}
		wantIs(t, "Lock", w.err, context.DeadlineExceeded)
		wantClaims(t, m, "x", 1, 0)
		unlock(t, l)
		l, err := other.Mutex("x").TryLock(ctxb)
		if err != nil {
			t.Fatalf("not free: %v", err)
		}
		unlock(t, l)
		wantClaims(t, m, "x", 0, 0)
		if n := coreOf(b).Queues(); n != 1 {
			t.Errorf("the client keeps something for %d names; want 1", n)
		}
	})
}

// lostReplies are stores in which an attempt on "x" has an unknown outcome.
var lostReplies = map[string]string{
	"reply":                     `name("x", on(attempt, lose(reply)))`,
	"request":                   `name("x", on(attempt, lose(request)))`,
	"late attempt":              `name("x", on(attempt, delay(5s, 0s)))`,
	"late reply":                `name("x", on(attempt, delay(100ms, 5s)))`,
	"reply and withdrawal":      `any(name("x", on(attempt, lose(reply))), on(withdraw, nth(1, lose(request))))`,
	"reply, withdrawal refused": `any(name("x", on(attempt, lose(reply))), on(withdraw, nth(1, refuse)))`,
	"reply, slow withdrawal":    `any(name("x", on(attempt, lose(reply))), on(withdraw, delay(300ms, 0s)))`,
	"reply, twice withdrawn":    `any(name("x", on(attempt, lose(reply))), on(withdraw, nth(1, lose(reply))))`,
}

// givingUp asks for "x" with a context that ends after 200 ms.
var givingUp = map[string]func(ctx context.Context, m *fencelock.Mutex) (*fencelock.Lease, error){
	"lock": func(ctx context.Context, m *fencelock.Mutex) (*fencelock.Lease, error) { return m.Lock(ctx) },
	"try":  func(ctx context.Context, m *fencelock.Mutex) (*fencelock.Lease, error) { return m.TryLock(ctx) },
}

func TestGivingUpWithALostReplyLeavesNothingBehind(t *testing.T) {
	for name, fault := range lostReplies {
		for how, ask := range givingUp {
			t.Run(how+"/"+name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					m := newStore()
					c, other := newClient(t, bent(t, m, fault), nil), newClient(t, m, nil)
					holder := lock(t, c, "keeps its session alive")
					ctx, cancel := context.WithTimeout(ctxb, 200*time.Millisecond)
					defer cancel()
					began := time.Now()
					if _, err := ask(ctx, c.Mutex("x")); !errors.Is(err, context.DeadlineExceeded) {
						t.Fatalf("got %v; want the context's error", err)
					}
					if waited := time.Since(began); waited > 200*time.Millisecond {
						t.Errorf("gave up after %v", waited)
					}
					l := lock(t, other, "x")
					if waited := time.Since(began); waited > callTimeout+time.Second {
						t.Errorf("the next had to wait for %v", waited)
					}
					unlock(t, l)
					time.Sleep(10 * ttl)
					wantClaims(t, m, "x", 0, 0)
					unlock(t, holder)
				})
			})
		}
	}
}

func TestLostReplyIsAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		st := tap(bent(t, m, `on(attempt, nth(1, lose(reply)))`))
		c := newClient(t, st, nil)
		l := lock(t, c, "a")
		calls := st.Sent(faultstore.Attempt)
		if len(calls) != 2 || calls[0].Seq != calls[1].Seq {
			t.Errorf("attempts: %+v; want two of one claim", calls)
		}
		if l.Token() != driver.TokenStep {
			t.Errorf("token %v; want the one of the first attempt", l.Token())
		}
		wantClaims(t, m, "a", 1, 0)
		unlock(t, l)
		wantClaims(t, m, "a", 0, 0)
	})
}

func TestLateAttemptIsNotGranted(t *testing.T) {
	t.Run("given up", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			m := newStore()
			st := bent(t, m, `name("x", on(attempt, nth(1, delay(20s, 0s))))`)
			c := newClient(t, st, nil)
			lock(t, c, "keeps its session alive")
			ctx, cancel := context.WithTimeout(ctxb, time.Second)
			defer cancel()
			_, err := c.Mutex("x").Lock(ctx)
			wantIs(t, "Lock", err, context.DeadlineExceeded)
			wantLate(t, st, func() { wantClaims(t, m, "x", 0, 0) })
		})
	})
	t.Run("asked again and unlocked", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			m := newStore()
			st := bent(t, m, `name("x", on(attempt, nth(1, delay(20s, 0s))))`)
			c := newClient(t, st, nil)
			lock(t, c, "keeps its session alive")
			unlock(t, lock(t, c, "x"))
			wantLate(t, st, func() { wantClaims(t, m, "x", 0, 0) })
		})
	})
	t.Run("tried", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			m := newStore()
			st := bent(t, m, `name("x", on(attempt, nth(1, delay(20s, 0s))))`)
			c := newClient(t, st, nil)
			lock(t, c, "keeps its session alive")
			_, err := c.Mutex("x").TryLock(ctxb)
			wantIs(t, "TryLock", err, fencelock.ErrUnavailable)
			wantLate(t, st, func() { wantClaims(t, m, "x", 0, 0) })
		})
	})
}

// wantLate checks something before and after an attempt lands late.
func wantLate(t *testing.T, st *faultstore.Store, check func()) {
	t.Helper()
	check()
	if st.Injected()[faultstore.Late] != 0 {
		t.Fatal("the attempt has landed already")
	}
	time.Sleep(2 * ttl)
	synctest.Wait()
	if st.Injected()[faultstore.Late] != 1 {
		t.Fatal("the attempt has not landed")
	}
	check()
}

func TestUnconfirmedUnlockIsRepeated(t *testing.T) {
	faults := map[string]string{
		"lost request": `on(withdraw, during(0s, 8s, lose(request)))`,
		"lost reply":   `on(withdraw, during(0s, 8s, lose(reply)))`,
		"refused":      `on(withdraw, during(0s, 8s, refuse))`,
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newStore()
				st := tap(bent(t, m, fault))
				c, other := newClient(t, st, nil), newClient(t, m, nil)
				lock(t, c, "keeps its session alive")
				l := lock(t, c, "x")
				err := l.Unlock(ctxb)
				wantIs(t, "Unlock", err, fencelock.ErrUnavailable, fencelock.ErrReleased)
				if errors.Is(err, fencelock.ErrLost) {
					t.Errorf("Unlock says the lease was lost: %v", err)
				}
				wantIs(t, "Err", l.Err(), fencelock.ErrReleased)
				began := time.Now()
				next := lock(t, other, "x")
				if waited := time.Since(began); waited > ttl {
					t.Errorf("the next had to wait for %v", waited)
				}
				time.Sleep(ttl)
				n := len(st.Sent(faultstore.Withdraw))
				if time.Sleep(10 * ttl); n < 2 || len(st.Sent(faultstore.Withdraw)) != n {
					t.Errorf("%d withdrawals, and later %d", n, len(st.Sent(faultstore.Withdraw)))
				}
				wantClaims(t, m, "x", 1, 0) // no other claim was touched
				unlock(t, next)
			})
		})
	}
}

// TestDoReportsWhetherItRan: an error of Do shows whether its function ran.
func TestDoReportsWhetherItRan(t *testing.T) {
	for fault, ran := range map[string]bool{`on(withdraw, lose(reply))`: true, `on(attempt, lose(reply))`: false} {
		t.Run(fault, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, called := newClient(t, bent(t, newStore(), fault), nil), false
				err := c.Do(ctxb, "x", func(context.Context, *fencelock.Lease) error { called = true; return nil })
				wantIs(t, "Do", err, fencelock.ErrUnavailable)
				if called != ran || errors.Is(err, fencelock.ErrReleased) != ran {
					t.Errorf("called: %t, and the error is %v; want both to report %t", called, err, ran)
				}
			})
		})
	}
}

// An out-of-memory error of the server is definite but may pass: the withdrawal is
// repeated.
func TestWithdrawalIsRepeatedAfterADefiniteError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		st := tap(m)
		full := errors.New("OOM command not allowed when used memory > 'maxmemory'")
		st.OnWithdraw = func(ctx context.Context, w driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
			if w.Name == "full" || len(st.Sent(faultstore.Withdraw)) < 4 {
				return driver.WasAbsent, full
			}
			return next(ctx, w)
		}
		c := newClient(t, st, nil)
		lock(t, c, "keeps its session alive")
		blocker, l := lock(t, c, "full"), lock(t, c, "x")
		wantIs(t, "Unlock", blocker.Unlock(ctxb), full)
		wantIs(t, "Unlock", l.Unlock(ctxb), full)
		time.Sleep(ttl)
		wantClaims(t, m, "x", 0, 0) // although the withdrawal before it is refused forever
		before := len(st.Sent(faultstore.Withdraw))
		time.Sleep(10 * ttl)
		if n := len(st.Sent(faultstore.Withdraw)) - before; n < 10 || n > 1000 {
			t.Errorf("%d withdrawals in 10 TTLs of a refusal", n)
		}
	})
}
