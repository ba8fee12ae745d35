// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
)

// A gauge of the leases that are held comes back to zero, whatever panics, and however
// often.
func TestEveryLeaseHasABeginningAndAnEndAfterAPanic(t *testing.T) {
	for what, bend := range panicking {
		for how, get := range callers {
			t.Run(what+"/"+how, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					m := newStore()
					st, opts, b := tap(m), &fencelock.Options{}, &balance{}
					bend(&once{}, opts, st)
					hook := opts.Hooks.Event
					opts.Hooks.Event = func(e fencelock.Event) {
						b.event(e)
						if hook != nil {
							hook(e)
						}
					}
					c := newClient(t, st, opts)
					holder := lock(t, newClient(t, m, nil), "x")
					var all sync.WaitGroup
					for range 5 {
						all.Go(func() { recovered(c, get) })
					}
					time.Sleep(time.Second)
					unlock(t, holder)
					all.Wait()
					recovered(c, get) // if it has not panicked yet
					time.Sleep(time.Minute)
					b.want(t, b.total)
				})
			})
		}
	}
}

// Hooks that panic each time do not keep the others of a set from being given back.
func TestPanicOfEveryHookLeavesNothingOfASetBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, n := newStore(), 0
		c := newClient(t, m, &fencelock.Options{Hooks: fencelock.Hooks{
			AcquireStart: func(ctx context.Context, _ fencelock.AcquireStart) context.Context {
				if n++; n == 3 {
					panic("metrics")
				}
				return ctx
			},
			Event: func(e fencelock.Event) {
				if e.Kind == fencelock.LeaseReleased {
					panic("log")
				}
			},
		}})
		if p := panicOf(func() { _, _ = c.LockAll(ctxb, []string{"a", "b", "c"}) }); p != "metrics" {
			t.Errorf("recovered %v; want the first panic", p)
		}
		wantClaims(t, m, "a", 0, 0)
		wantClaims(t, m, "b", 0, 0)
	})
}
