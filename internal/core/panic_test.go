// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
)

// once panics at its first call.
type once struct{ atomic.Bool }

func (o *once) boom() {
	if !o.Swap(true) {
		panic("metrics")
	}
}

// panicking are hooks and stores that panic once on the goroutine of a caller.
var panicking = map[string]func(*once, *fencelock.Options, *locktest.Tap){
	"granted event": func(o *once, opts *fencelock.Options, _ *locktest.Tap) {
		opts.Hooks.Event = func(e fencelock.Event) {
			if e.Kind == fencelock.LeaseGranted {
				o.boom()
			}
		}
	},
	"released event": func(o *once, opts *fencelock.Options, _ *locktest.Tap) {
		opts.Hooks.Event = func(e fencelock.Event) {
			if e.Kind == fencelock.LeaseReleased {
				o.boom()
			}
		}
	},
	"passed event": func(o *once, opts *fencelock.Options, _ *locktest.Tap) {
		opts.Hooks.Event = func(e fencelock.Event) {
			if e.Kind == fencelock.LeaseHandedOff {
				o.boom()
			}
		}
	},
	"start": func(o *once, opts *fencelock.Options, _ *locktest.Tap) {
		opts.Hooks.AcquireStart = func(ctx context.Context, _ fencelock.AcquireStart) context.Context { o.boom(); return ctx }
	},
	"end": func(o *once, opts *fencelock.Options, _ *locktest.Tap) {
		opts.Hooks.AcquireEnd = func(context.Context, fencelock.AcquireEnd) { o.boom() }
	},
	"wait": func(o *once, opts *fencelock.Options, _ *locktest.Tap) {
		opts.Hooks.AcquireWait = func(context.Context, fencelock.AcquireWait) { o.boom() }
	},
	"wait in the client's line": func(o *once, opts *fencelock.Options, _ *locktest.Tap) {
		opts.Hooks.AcquireWait = func(_ context.Context, w fencelock.AcquireWait) {
			if w.Holder == nil { // the store's holder is not known there
				o.boom()
			}
		}
	},
	"trace": func(o *once, opts *fencelock.Options, _ *locktest.Tap) {
		opts.Hooks.TraceParent = func(context.Context) string { o.boom(); return "" }
	},
	"attempt": func(o *once, _ *fencelock.Options, st *locktest.Tap) {
		st.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			o.boom()
			return next(ctx, c)
		}
	},
	"granted attempt": func(o *once, _ *fencelock.Options, st *locktest.Tap) {
		st.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			out, err := next(ctx, c)
			o.boom()
			return out, err
		}
	},
	"await": func(o *once, _ *fencelock.Options, st *locktest.Tap) {
		st.OnAwait = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			o.boom()
			return next(ctx, c)
		}
	},
	"withdraw": func(o *once, _ *fencelock.Options, st *locktest.Tap) {
		st.OnWithdraw = func(ctx context.Context, w driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
			o.boom()
			return next(ctx, w)
		}
	},
}

// callers are what the goroutine that panics does.
var callers = map[string]func(c *fencelock.Client) (*fencelock.Lease, error){
	"lock":  func(c *fencelock.Client) (*fencelock.Lease, error) { return c.Mutex("x").Lock(ctxb) },
	"try":   func(c *fencelock.Client) (*fencelock.Lease, error) { return c.Mutex("x").TryLock(ctxb) },
	"rlock": func(c *fencelock.Client) (*fencelock.Lease, error) { return c.RWMutex("x").RLock(ctxb) },
}

// recovered locks and unlocks as a server does that recovers the panics of its
// handlers.
func recovered(c *fencelock.Client, get func(*fencelock.Client) (*fencelock.Lease, error)) {
	defer func() { _ = recover() }()
	if l, err := get(c); err == nil {
		defer l.Unlock(ctxb)
		time.Sleep(time.Second)
	}
}

// A panic on the goroutine of a caller leaves the name as if the caller had given
// up: nothing is held, and no caller hangs.
func TestPanicLeavesNothingBehind(t *testing.T) {
	for what, bend := range panicking {
		for how, get := range callers {
			t.Run(what+"/"+how, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					m := newStore()
					st, opts := tap(m), &fencelock.Options{}
					bend(&once{}, opts, st)
					c, other := newClient(t, st, opts), newClient(t, m, nil)
					holder := lock(t, other, "x")
					done := make(chan struct{})
					for range 5 {
						go func() { recovered(c, get); done <- struct{}{} }()
					}
					time.Sleep(time.Second)
					unlock(t, holder)
					for range 5 {
						select {
						case <-done:
						case <-time.After(time.Hour):
							t.Fatal("a caller hangs")
						}
					}
					time.Sleep(time.Minute)
					wantClaims(t, m, "x", 0, 0)
					if n := coreOf(c).Queues(); n != 0 {
						t.Errorf("the client keeps something for %d names", n)
					}
					recovered(c, get) // if it has not panicked yet
					time.Sleep(time.Minute)
					wantClaims(t, m, "x", 0, 0)
					unlock(t, lock(t, c, "x"))
				})
			})
		}
	}
}

// No caller waits for a lease whose beginning could not be announced, and the
// session of a client that panicked is let go as any other.
func TestSessionIsLetGoAfterAPanic(t *testing.T) {
	for what, bend := range panicking {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				st, opts := tap(newStore()), &fencelock.Options{}
				bend(&once{}, opts, st)
				event, closed := opts.Hooks.Event, &atomic.Bool{}
				opts.Hooks.Event = func(e fencelock.Event) {
					if e.Kind == fencelock.SessionClosed {
						closed.Store(true)
					}
					if event != nil {
						event(e)
					}
				}
				c := newClient(t, st, opts)
				recovered(c, callers["lock"])
				recovered(c, callers["lock"])
				time.Sleep(4 * ttl)
				if !closed.Load() {
					t.Error("the session of an idle client was not let go")
				}
			})
		})
	}
}

// The attempt arrives after the store panicked.
func TestLateAttemptOfAPanicIsNotGranted(t *testing.T) {
	for how, get := range callers {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newStore()
				st, o := tap(m), &once{}
				st.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
					if !o.Load() {
						claim := *c
						time.AfterFunc(10*time.Second, func() { _, _ = next(ctxb, &claim) })
					}
					o.boom()
					return next(ctx, c)
				}
				c := newClient(t, st, nil)
				recovered(c, get)
				holder := lock(t, c, "keeps its session alive")
				time.Sleep(time.Minute)
				wantClaims(t, m, "x", 0, 0)
				unlock(t, holder)
			})
		})
	}
}

func TestUnlockWithoutAContextUnlocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		c := newClient(t, m, nil)
		l := lock(t, c, "x")
		var none context.Context
		for range 2 {
			if err := l.Unlock(none); err != nil {
				t.Errorf("Unlock: %v", err)
			}
		}
		wantClaims(t, m, "x", 0, 0)
	})
}

// The answer of an unlock that panicked is not that all is well.
func TestUnlockAfterAPanicReturnsUnconfirmed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		st, opts := tap(m), &fencelock.Options{}
		panicking["withdraw"](&once{}, opts, st)
		c := newClient(t, st, opts)
		l := lock(t, c, "x")
		if locktest.Panics(func() { _ = l.Unlock(ctxb) }) == nil {
			t.Fatal("no panic")
		}
		wantIs(t, "Unlock again", l.Unlock(ctxb), fencelock.ErrReleased, fencelock.ErrUnavailable)
		wantClaims(t, m, "x", 0, 0)
	})
}

func TestDowngradeThatPanicsCanBeUnlocked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		st := tap(m)
		var o once
		st.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			if c.Terms.Mode == driver.Shared {
				o.boom()
			}
			return next(ctx, c)
		}
		c := newClient(t, st, nil)
		rw := c.RWMutex("x")
		l := write(t, rw)
		if locktest.Panics(func() { _ = rw.Downgrade(ctxb, l) }) == nil {
			t.Fatal("no panic")
		}
		if err := rw.Downgrade(ctxb, l); err != nil {
			t.Errorf("Downgrade again: %v", err)
		}
		unlock(t, l)
		wantClaims(t, m, "x", 0, 0)
		unlock(t, lock(t, c, "x"))
	})
}

// A panic while LockAll waits for one name leaves none of the others held.
func TestPanicInLockAllLeavesNothingBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, o, n := newStore(), &once{}, 0
		opts := &fencelock.Options{}
		opts.Hooks.AcquireStart = func(ctx context.Context, _ fencelock.AcquireStart) context.Context {
			if n++; n == 3 {
				o.boom()
			}
			return ctx
		}
		c := newClient(t, m, opts)
		if p := panicOf(func() { _, _ = c.LockAll(ctxb, []string{"a", "b", "c"}) }); p != "metrics" {
			t.Fatalf("recovered %v", p)
		}
		wantClaims(t, m, "a", 0, 0)
		wantClaims(t, m, "b", 0, 0)
		unlock(t, lock(t, c, "a"))
	})
}

// The leases of a set are given back on several goroutines. A panic there is the
// caller's, who can recover from it, and all leases are given back.
func TestPanicInUnlockOfASetIsTheCallers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, o := newStore(), &once{}
		opts := &fencelock.Options{}
		panicking["released event"](o, opts, nil)
		c := newClient(t, m, opts)
		names := []string{"a", "b", "c"}
		set, err := c.LockAll(ctxb, names)
		must.OK(t, err)
		if p := panicOf(func() { _ = set.Unlock(ctxb) }); p != "metrics" {
			t.Fatalf("recovered %v", p)
		}
		o.Store(false)
		other := lock(t, newClient(t, m, nil), "c")
		if p := panicOf(func() { _, _ = c.TryLockAll(ctxb, names) }); p != "metrics" {
			t.Fatalf("a set that is not complete: recovered %v", p)
		}
		unlock(t, other)
		for _, name := range names {
			wantClaims(t, m, name, 0, 0)
		}
	})
}

// panicOf returns what f panics with.
func panicOf(f func()) (p any) {
	defer func() { p = recover() }()
	f()
	return nil
}
