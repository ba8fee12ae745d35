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
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

// A waiter's context ends at the instant at which the lock is passed to the waiter.
func TestWaiterThatGivesUpPassesTheLockOn(t *testing.T) {
	opts := map[string]*fencelock.Options{
		"given a lease":          {LocalHandoff: time.Hour},
		"given the task to call": {LocalHandoff: -1},
	}
	for name, o := range opts {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newStore()
				c := newClient(t, m, o)
				for range 200 {
					l := lock(t, c, "x")
					ctx, cancel := context.WithCancel(ctxb)
					givesUp, next := start(ctx, c.Mutex("x")), start(ctxb, c.Mutex("x"))
					cancel()
					unlock(t, l)
					if !givesUp.over() {
						t.Fatal("waits on after its context ended")
					}
					if givesUp.err == nil {
						unlock(t, givesUp.lease) // the lock came first
					}
					unlock(t, next.wait(t, 0))
				}
				wantClaims(t, m, "x", 0, 0)
				if n := coreOf(c).Queues(); n != 0 {
					t.Errorf("the client keeps something for %d names", n)
				}
			})
		})
	}
	t.Run("in the store's queue", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			m := newStore()
			st := tap(m)
			a, b, late := newClient(t, m, nil), newClient(t, st, nil), newClient(t, m, nil)
			l := lock(t, a, "x")
			ctx, cancel := context.WithCancel(ctxb)
			givesUp, next := start(ctx, b.Mutex("x")), start(ctxb, b.Mutex("x"))
			last := start(ctxb, late.Mutex("x"))
			cancel()
			if !givesUp.over() {
				t.Fatal("waits on after its context ended")
			}
			unlock(t, l)
			unlock(t, next.wait(t, 0)) // its place was before the late one's
			if calls := st.Sent(faultstore.Attempt); calls[0].Seq != calls[len(calls)-1].Seq {
				t.Errorf("attempts %+v; want one claim", calls)
			}
			unlock(t, last.wait(t, 0))
		})
	})
}

func TestLostPushCostsOnePoll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		st := tap(bent(t, m, `on(await, lose(reply))`))
		a, b := newClient(t, m, nil), newClient(t, st, nil)
		l := lock(t, a, "x")
		w := start(ctxb, b.Mutex("x"))
		time.Sleep(time.Minute)
		before := len(st.Sent(faultstore.Attempt))
		unlock(t, l)
		began := time.Now()
		w.wait(t, ttl+ttl/10)
		if polls := len(st.Sent(faultstore.Attempt)) - before; polls != 1 {
			t.Errorf("%d polls after the push was lost; want 1", polls)
		}
		if w.at.Equal(began) {
			t.Error("the push was not lost")
		}
		if before > 12 {
			t.Errorf("%d polls in the first minute", before)
		}
	})
}

func TestWaiterSurvivesItsSession(t *testing.T) {
	t.Run("cut off", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			m := newStore()
			lost := make(chan fencelock.Event, 1)
			opts := &fencelock.Options{StoreTimeout: 10 * time.Minute, Hooks: fencelock.Hooks{Event: func(e fencelock.Event) {
				if e.Kind == fencelock.SessionLost {
					lost <- e
				}
			}}}
			a, b := newClient(t, m, nil), newClient(t, bent(t, m, `during(5s, 1m, lose(request))`), opts)
			l := lock(t, a, "x")
			w := start(ctxb, b.Mutex("x"))
			<-lost
			time.Sleep(2 * time.Minute)
			wantClaims(t, m, "x", 1, 1)
			unlock(t, l)
			unlock(t, w.wait(t, 0))
		})
	})
	t.Run("notified by a keep-alive", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			m := newStore()
			st := tap(bent(t, m, `on(await, nth(1, lose(reply)))`)) // so only the keep-alive notifies the waiter
			notified := make(chan struct{})
			st.OnAlive = func(ctx context.Context, next locktest.AliveFunc) (driver.Renewal, error) {
				if len(st.Sent(faultstore.KeepAlive)) > 1 {
					return next(ctx)
				}
				close(notified)
				return driver.Renewal{}, driver.ErrGone
			}
			a, b := newClient(t, m, nil), newClient(t, st, nil)
			l := lock(t, a, "x")
			w := start(ctxb, b.Mutex("x"))
			<-notified
			time.Sleep(ttl / 5) // a margin later the first session is ended in the store
			wantClaims(t, m, "x", 1, 1)
			if n := len(st.Sent(faultstore.Open)); n != 2 {
				t.Errorf("%d sessions; want a second", n)
			}
			unlock(t, l)
			unlock(t, w.wait(t, 0))
		})
	})
}

// An answer that the session has ended is definite wherever it comes from: it
// must not be asked for again and again.
func TestSessionThatTheStoreEndedIsReplaced(t *testing.T) {
	for _, how := range []string{"lock", "try", "unlock"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newStore()
				st := tap(m)
				st.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
					if st.Total() > 100 {
						return driver.Outcome{}, errors.New("asked too often")
					}
					return next(ctx, c)
				}
				c := newClient(t, st, nil)
				held := lock(t, c, "held")
				notified := held.Context()
				m.StepClock(ttl)
				var l *fencelock.Lease
				var err error
				switch how {
				case "lock":
					l, err = c.Mutex("x").Lock(ctxb)
				case "try":
					l, err = c.Mutex("x").TryLock(ctxb)
				case "unlock":
					wantIs(t, "Unlock", held.Unlock(ctxb), fencelock.ErrLost)
					l, err = c.Mutex("x").Lock(ctxb)
				}
				if err != nil {
					t.Fatalf("with a session the store has ended: %v", err)
				}
				if how != "unlock" && !isDone(notified) {
					t.Error("the holder was not notified, though the store has answered that the session ended")
				}
				if n := st.Total(); n > 10 {
					t.Errorf("%d calls", n)
				}
				unlock(t, l)
			})
		})
	}
}

func TestPolledStoreIsServed(t *testing.T) {
	stores := map[string]memstore.Options{
		"no push": {NoPush: true}, "no queue": {NoQueue: true}, "neither": {NoPush: true, NoQueue: true},
	}
	for name, o := range stores {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := memstore.New(&o)
				st := tap(m)
				a, b := newClient(t, m, nil), newClient(t, st, nil)
				l := lock(t, a, "x")
				w, second := start(ctxb, b.Mutex("x")), start(ctxb, b.Mutex("x"))
				time.Sleep(time.Minute)
				if n := len(st.Sent(faultstore.Attempt)); n < 60 || n > 600 {
					t.Errorf("%d polls in a minute", n)
				}
				unlock(t, l)
				began := time.Now()
				unlock(t, w.wait(t, time.Second))
				if waited := w.at.Sub(began); waited > time.Second {
					t.Errorf("noticed after %v", waited)
				}
				unlock(t, second.wait(t, time.Second))
				ctx, cancel := context.WithTimeout(ctxb, time.Second)
				defer cancel()
				lock(t, a, "x")
				_, err := b.Mutex("x").Lock(ctx)
				wantIs(t, "Lock", err, context.DeadlineExceeded)
				wantClaims(t, m, "x", 1, 0)
			})
		})
	}
}

// The waiter must not find out by its next poll: the lock may be free and the waiter's
// queued claim dead.
// A store that removes every claim again does not answer the question either: the wait ends
// after Options.StoreTimeout.
func TestClaimThatIsRemovedAgainAndAgainEndsTheWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := tap(newStore())
		st.OnAttempt = func(context.Context, *driver.Claim, locktest.AttemptFunc) (driver.Outcome, error) {
			return driver.Outcome{State: driver.Absent}, nil
		}
		c := newClient(t, st, nil)
		ctx, cancel := context.WithTimeout(ctxb, 10*ttl)
		defer cancel()
		began := time.Now()
		_, err := c.Mutex("x").Lock(ctx)
		wantIs(t, "Lock", err, fencelock.ErrUnavailable)
		if waited := time.Since(began); waited < ttl || waited > 2*ttl {
			t.Errorf("waited %v; Options.StoreTimeout is %v", waited, ttl)
		}
	})
}

func TestWaiterGetsANewSessionAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mem := newStore()
		holder := lock(t, newClient(t, mem, nil), "a")
		began := time.Now()
		deaf := `any(on(await, lose(reply)), on(keepalive, during(0s, 15s, refuse)))`
		st := tap(bent(t, mem, deaf))
		waiting := start(ctxb, newClient(t, st, nil).Mutex("a"))
		time.Sleep(trust - time.Since(began))
		synctest.Wait()
		if n := len(st.Sent(faultstore.Open)); n != 2 {
			t.Fatalf("at the end of its first session the waiter has opened %d sessions, want 2", n)
		}
		unlock(t, holder)
		unlock(t, waiting.wait(t, 2*ttl))
	})
}

// TestGoneHeardWhileWaitingNotifiesHolders: the answer that the session has ended
// comes when the waiter was about to poll again anyway.
func TestGoneHeardWhileWaitingNotifiesHolders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		tp := tap(store)
		var heard time.Time
		tp.OnAwait = func(ctx context.Context, _ *driver.Claim, _ locktest.AttemptFunc) (driver.Outcome, error) {
			<-ctx.Done()
			heard = time.Now()
			return driver.Outcome{}, driver.ErrGone
		}
		c, other := newClient(t, tp, nil), newClient(t, store, nil)
		mine, theirs := lock(t, c, "mine"), lock(t, other, "theirs")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start(ctx, c.Mutex("theirs"))
		wantNear(t, "notified", ended(t, mine.Context()), heard)
		unlock(t, theirs)
	})
}
