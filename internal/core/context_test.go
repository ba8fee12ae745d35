// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

type valueKey struct{}

func TestContextBoundsTheWaitingOnly(t *testing.T) {
	for _, how := range []string{"from the store", "handed off", "re-entered"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newClient(t, newStore(), nil)
				ctx, cancel := context.WithTimeout(context.WithValue(ctxb, valueKey{}, "kept"), time.Second)
				var l *fencelock.Lease
				switch how {
				case "from the store":
					l = start(ctx, c.Mutex("x")).wait(t, 0)
				case "handed off":
					first := lock(t, c, "x")
					w := start(ctx, c.Mutex("x"))
					unlock(t, first)
					l = w.wait(t, 0)
				case "re-entered":
					under, end := context.WithTimeout(lock(t, c, "x").Context(), time.Second)
					defer end()
					l = start(context.WithValue(under, valueKey{}, "kept"), c.Mutex("x")).wait(t, 0)
				}
				held := l.Context()
				cancel()
				time.Sleep(10 * ttl)
				if isDone(held) || !l.Valid() {
					t.Fatalf("the lease ended with the context of its acquisition: %v", context.Cause(held))
				}
				if _, ok := held.Deadline(); ok || held.Value(valueKey{}) != "kept" {
					t.Errorf("the lease's context has a deadline (%v) or lost its values", ok)
				}
				unlock(t, l)
			})
		})
	}
}

// errWhy is the cause that the caller gives.
var errWhy = errors.New("the caller's reason")

// waits are the states in which the end of the context can find an acquisition.
var waits = map[string]struct {
	fault string
	taken bool // by another client
	local bool // another waiter of the same client is before it
}{
	"in the store's queue": {`none`, true, false},
	"in the local queue":   {`none`, true, true},
	"opening":              {`on(open, lose(request))`, false, false},
	"attempting":           {`on(attempt, lose(reply))`, false, false},
	"backing off":          {`on(attempt, refuse)`, false, false},
}

func TestContextErrorIsPreserved(t *testing.T) {
	for name, w := range waits {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newStore()
				c := newClient(t, bent(t, m, w.fault), &fencelock.Options{StoreTimeout: time.Hour})
				if w.taken {
					lock(t, newClient(t, m, nil), "x")
				}
				if w.local {
					ctx, cancel := context.WithCancel(ctxb)
					before := start(ctx, c.Mutex("x"))
					defer func() { cancel(); <-before.done }()
				}
				began := time.Now()
				ctx, cancel := context.WithTimeoutCause(ctxb, time.Second, errWhy)
				defer cancel()
				_, err := c.Mutex("x").Lock(ctx)
				wantIs(t, "Lock", err, context.DeadlineExceeded, errWhy)
				ctx2, cancel2 := context.WithCancel(ctxb)
				a := start(ctx2, c.Mutex("x"))
				time.Sleep(time.Second)
				cancel2()
				if !a.over() {
					t.Fatal("waits on after its context was canceled")
				}
				wantIs(t, "Lock", a.err, context.Canceled)
				_, err = c.Mutex("x").Lock(ctx2)
				wantIs(t, "Lock with a context that had ended", err, context.Canceled)
				_, err = c.Mutex("x").TryLock(ctx2)
				wantIs(t, "TryLock with a context that had ended", err, context.Canceled)
				if took := time.Since(began); took != 2*time.Second {
					t.Errorf("took %v; want 2s", took)
				}
			})
		})
	}
}

func TestDefiniteErrorEndsTheWait(t *testing.T) {
	bend := map[string]func(st *locktest.Tap){
		"open": func(st *locktest.Tap) {
			st.OnOpen = func(context.Context, driver.OpenRequest, locktest.OpenFunc) (driver.Session, driver.Renewal, error) {
				return nil, driver.Renewal{}, errNoAuth
			}
		},
		"attempt": func(st *locktest.Tap) {
			st.OnAttempt = func(context.Context, *driver.Claim, locktest.AttemptFunc) (driver.Outcome, error) {
				return driver.Outcome{}, errNoAuth
			}
		},
		"await": func(st *locktest.Tap) {
			st.OnAwait = func(context.Context, *driver.Claim, locktest.AttemptFunc) (driver.Outcome, error) {
				return driver.Outcome{}, errNoAuth
			}
		},
	}
	for name, b := range bend {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newStore()
				if name == "await" {
					lock(t, newClient(t, m, nil), "x")
				}
				st := tap(m)
				b(st)
				c := newClient(t, st, nil)
				began := time.Now()
				_, err := c.Mutex("x").Lock(ctxb)
				wantIs(t, "Lock", err, errNoAuth)
				if errors.Is(err, fencelock.ErrUnavailable) {
					t.Errorf("says that trying again may help: %v", err)
				}
				if waited := time.Since(began); waited != 0 {
					t.Errorf("waited %v", waited)
				}
				if name != "await" {
					_, err = c.Mutex("x").TryLock(ctxb)
					wantIs(t, "TryLock", err, errNoAuth)
				}
				if n := coreOf(c).Queues(); n != 0 {
					t.Errorf("the client keeps something for %d names", n)
				}
			})
		})
	}
}

func TestSilenceEndsTheWaitAfterPatience(t *testing.T) {
	for _, fault := range []string{`lose(request)`, `refuse`, `on(attempt, lose(reply))`, `on(attempt, refuse)`} {
		t.Run(fault, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const patience = 20 * time.Second
				c := newClient(t, bent(t, newStore(), fault), &fencelock.Options{StoreTimeout: patience})
				began := time.Now()
				_, err := c.Mutex("x").Lock(ctxb)
				wantIs(t, "Lock", err, fencelock.ErrUnavailable)
				if waited := time.Since(began); waited < patience || waited > patience+2*callTimeout {
					t.Errorf("gave up after %v; want %v", waited, patience)
				}
				began = time.Now()
				_, err = c.Mutex("x").TryLock(ctxb)
				wantIs(t, "TryLock", err, fencelock.ErrUnavailable)
				if waited := time.Since(began); waited > callTimeout {
					t.Errorf("TryLock took %v", waited)
				}
			})
		})
	}
	t.Run("not while it answers now and then", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			m := memstore.New(&memstore.Options{NoPush: true}) // is asked often
			st := bent(t, m, `any(on(attempt, during(1s, 14s, refuse)), on(attempt, during(16s, 29s, refuse)), on(attempt, during(31s, 44s, refuse)))`)
			l := lock(t, newClient(t, m, nil), "x")
			w := start(ctxb, newClient(t, st, nil).Mutex("x"))
			time.Sleep(time.Minute)
			unlock(t, l)
			unlock(t, w.wait(t, ttl))
			if n := st.Injected()[faultstore.Refused]; n < 10 {
				t.Errorf("only %d refusals", n)
			}
		})
	})
}

func TestTryLockNamesTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		a := newClient(t, m, &fencelock.Options{Owner: "ann@host:1"})
		b := newClient(t, m, &fencelock.Options{Owner: "bob@host:2"})
		l := lock(t, a, "x", fencelock.Reason("nightly"))
		began := time.Now()
		for name, c := range map[string]*fencelock.Client{"same client": a, "other client": b} {
			_, err := c.Mutex("x").TryLock(ctxb)
			wantIs(t, name, err, fencelock.ErrBusy)
			var busy *fencelock.BusyError
			if !errors.As(err, &busy) || len(busy.Holders) != 1 {
				t.Fatalf("%s: %v; want a BusyError with a holder", name, err)
			}
			if h := busy.Holders[0]; h.Record.Owner != "ann@host:1" || h.Record.Reason != "nightly" || h.Token != l.Token() {
				t.Errorf("%s: the holder is %+v", name, h)
			}
		}
		// Nor does it wait for or overtake a waiter.
		w := start(ctxb, b.Mutex("x"))
		_, err := b.Mutex("x").TryLock(ctxb)
		wantIs(t, "behind a waiter", err, fencelock.ErrBusy)
		wantClaims(t, m, "x", 1, 1)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("waited %v", waited)
		}
		unlock(t, l)
		unlock(t, w.wait(t, 0))
		free, err := b.Mutex("x").TryLock(ctxb)
		must.OK(t, err)
		unlock(t, free)
		wantClaims(t, m, "x", 0, 0)
	})
}

// TestWithContextEndsWithBoth: work under it stops when its request is canceled and when
// its lock is lost, and says which.
func TestWithContextEndsWithBoth(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), nil)
		why := errors.New("the client hung up")
		request, hangUp := context.WithCancelCause(ctxb)
		l := lock(t, c, "x")
		ctx, cancel := l.WithContext(request)
		defer cancel()
		if fencelock.FromContext(ctx, "x") != l || fencelock.Innermost(ctx) != l || fencelock.FromContext(ctx, "") != nil {
			t.Error("the context does not carry the lease")
		}
		hangUp(why)
		if <-ctx.Done(); context.Cause(ctx) != why {
			t.Errorf("ended with %v, want the request's cause", context.Cause(ctx))
		}
		unlock(t, l)
		l = lock(t, c, "x", fencelock.MaxHold(time.Second))
		ctx, cancel = l.WithContext(ctxb)
		defer cancel()
		<-ctx.Done()
		wantIs(t, "the cause", context.Cause(ctx), fencelock.ErrLost, fencelock.LossMaxHold)
		if fencelock.Innermost(ctxb) != nil {
			t.Error("a context without a lease has an innermost one")
		}
	})
}

// TestDoOfEveryKind: each kind of lock runs work under a lease and gives it back.
func TestDoOfEveryKind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		c := newClient(t, m, nil)
		rw, sem := c.RWMutex("x"), c.Semaphore("x", 3)
		type work = func(ctx context.Context, l *fencelock.Lease) error
		for name, do := range map[string]func(context.Context, work) error{
			"client":    func(ctx context.Context, fn work) error { return c.Do(ctx, "x", fn) },
			"mutex":     c.Mutex("x").Do,
			"writer":    rw.Do,
			"reader":    rw.DoRead,
			"semaphore": func(ctx context.Context, fn work) error { return sem.Do(ctx, 2, fn) },
		} {
			own := errors.New(name)
			err := do(ctxb, func(ctx context.Context, l *fencelock.Lease) error {
				st, err := c.Inspect(ctx, "x")
				if err != nil || len(st.Holders) != 1 || (st.Holders[0].Mode == driver.Shared) != (name == "reader" || name == "semaphore") ||
					st.Holders[0].Weight != map[bool]int64{false: 1, true: 2}[name == "semaphore"] {
					t.Errorf("%s: %+v, %v", name, st.Holders, err)
				}
				return own
			})
			wantIs(t, name, err, own)
			wantClaims(t, m, "x", 0, 0)
		}
	})
}
