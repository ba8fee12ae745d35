// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

func TestEffectsOnOneCallCombine(t *testing.T) {
	for expr, want := range map[string]time.Duration{
		"any(delay(1s, 2s), delay(4s, 8s))":        15 * time.Second,
		"any(pause(3s), pause(1s))":                3 * time.Second,
		"any(pause(1s), pause(3s))":                3 * time.Second,
		"any(delay(1s, 1s), pause(3s))":            5 * time.Second, // the pause begins on arrival
		"any(dup, dup, delay(1s, 0s))":             1 * time.Second,
		"any(none, any(pause(1s), delay(0s, 1s)))": 2 * time.Second,
	} {
		t.Run(expr, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, expr, nil)
				if _, took, err := r.attempt("a", time.Minute); err != nil || took != want {
					t.Errorf("%v after %s, want %s", err, took, want)
				}
				for kind, n := range r.store.Injected() {
					if n != 1 {
						t.Errorf("%s is counted %d times for one call", kind, n)
					}
				}
			})
		})
	}
}

func TestTheLongestCutCounts(t *testing.T) {
	for _, expr := range []string{
		"nth(1, any(cut(5s), cut(2s)))",
		"nth(1, any(cut(2s), cut(5s)))",
		"any(nth(1, cut(5s)), nth(2, cut(1s)))",
	} {
		t.Run(expr, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, expr, nil)
				for range 7 {
					r.attempt("a", time.Second) // the log is checked below
				}
				r.wantExecuted("attempt a@5s", "attempt a@5s")
				r.wantInjected(CutOff, 5)
			})
		})
	}
}

func TestAShorterPauseDoesNotEndALongerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(Pauser)
		p.Pause(5 * time.Second)
		p.Pause(time.Second)
		r := newRig(t, "none", &Options{Pauser: p})
		if _, took, err := r.attempt("a", time.Minute); err != nil || took != 5*time.Second {
			t.Errorf("%v after %s, want 5s", err, took)
		}
	})
}

func TestALateReclaimUsesTheArgumentsOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := []driver.Held{{Claim: driver.Claim{Name: "a"}}}
		got := make(chan string, 1)
		f := newFake()
		s, err := Wrap(f, Delay(5*time.Second, 0), nil)
		must.OK(t, err)
		n := &session{s, "shard", reclaimer{got: got}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.Reclaim(ctx, held, true); !errors.Is(err, driver.ErrUnknown) {
			t.Fatal(err)
		}
		held[0].Claim.Name = "changed by the caller"
		s.Wait()
		if name := <-got; name != "a" {
			t.Errorf("reclaimed %q, want a", name)
		}
	})
}

// reclaimer sends the name that Reclaim got.
type reclaimer struct {
	driver.Session
	got chan string
}

func (r reclaimer) Reclaim(_ context.Context, held []driver.Held, _ bool) ([]bool, error) {
	r.got <- held[0].Claim.Name
	return make([]bool, len(held)), nil
}

func TestDupDoesNotRepeatForACallerThatHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The context ends while the store is at work.
		ctx, cancel := context.WithCancel(t.Context())
		r := newRig(t, "any(dup, step(+1s))", &Options{Step: func(time.Duration) { cancel() }})
		if _, err := r.session.KeepAlive(ctx); err != nil {
			t.Error(err)
		}
		r.wantExecuted("keepalive @0s")
		r.wantInjected(Duplicated, 0)
	})
}
