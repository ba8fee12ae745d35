// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
)

// A name that two processes take in turn is recalled less and less often, and the store does
// not show that it lingers in between.
func TestLingerCoolsDown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := tap(newStore())
		var recalls atomic.Int64 // hooks are called on any goroutine
		opts := &fencelock.Options{}
		opts.Hooks.Event = func(e fencelock.Event) {
			if e.Kind == fencelock.LeaseRecalled {
				recalls.Add(1)
			}
		}
		c, other := newClient(t, st, opts), newClient(t, st, nil)
		const turns = 2000
		shown := 0
		for range turns {
			idle(t, c, "x")
			state, err := c.Inspect(ctxb, "x")
			must.OK(t, err)
			for _, h := range state.Holders {
				if h.Linger > 0 {
					shown++
				}
			}
			unlock(t, lock(t, other, "x"))
		}
		if most, n := 10, int(recalls.Load()); n == 0 || n > most || shown > most {
			t.Errorf("%d recalls and %d holders that linger in %d turns, want 1 to %d", n, shown, turns, most)
		}
	})
}

// A name that sticks to its process lingers again soon after a visitor, however many there
// were.
func TestLingerAfterAVisitor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := tap(newStore())
		c, other := newClient(t, st, nil), newClient(t, st, nil)
		for range 10 {
			for range 20 {
				idle(t, c, "x")
			}
			calls := st.Total()
			idle(t, c, "x")
			if n := st.Total() - calls; n > 0 {
				t.Fatalf("%d calls for a name that has cooled down", n)
			}
			unlock(t, lock(t, other, "x"))
		}
	})
}

// While a name cools down, goroutines of the process hand it off among themselves.
func TestLingerCoolGrantsAreHandedOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := tap(newStore())
		c, other := newClient(t, st, nil), newClient(t, st, nil)
		idle(t, c, "x")
		unlock(t, lock(t, other, "x"))
		l := lock(t, c, "x", linger)
		next := start(ctxb, c.Mutex("x", linger))
		calls := st.Total()
		unlock(t, l)
		l = next.wait(t, lingering)
		if n := st.Total() - calls; n > 0 {
			t.Errorf("%d calls for a handoff in the process", n)
		}
		unlock(t, l)
	})
}

// What is known of names that cool down is bounded, and a name that was dropped lingers.
func TestLingerCoolsFewNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := tap(newStore())
		c, other := newClient(t, st, nil), newClient(t, st, nil)
		const names = 1100
		for i := range names {
			name := fmt.Sprint(i)
			idle(t, c, name)
			unlock(t, lock(t, other, name))
		}
		idle(t, c, "0")
		calls := st.Total()
		idle(t, c, "0")
		if n := st.Total() - calls; n > 0 {
			t.Errorf("%d calls for a name of which nothing is known any more", n)
		}
	})
}
