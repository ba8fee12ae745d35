// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestCaseThatWasHeldUpIsTriedAgain: a case that fails is tried again only if it was behind,
// and a failure that repeats counts.
func TestCaseThatWasHeldUpIsTriedAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		heldUp      time.Duration
		failures    int // the first so many tries fail
		tries, left int
	}{
		"passes":                 {0, 0, 1, 0},
		"fails in time":          {0, 1, 1, 1},
		"fails once, behind":     {time.Minute, 1, 2, 0},
		"fails always, behind":   {time.Minute, 100, maxTries, 1},
		"behind, but in slack":   {time.Millisecond, 1, 1, 1},
		"passes although behind": {time.Minute, 0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				c := Case{Name: "X", Clause: Clauses()[0], needs: all(), body: func(t *scene) {
					tries++
					t.elapse(time.Hour) // on purpose
					time.Sleep(tt.heldUp)
					if tries <= tt.failures {
						t.errorf("too late")
					}
				}}
				store := memstore.New(nil)
				r := c.checkAgain(t.Context(), &Harness{Open: func() (driver.Store, error) { return store, nil }}, t.Logf)
				if tries != tt.tries || len(r.Failures) != tt.left {
					t.Errorf("%d tries and %d failures, want %d and %d", tries, len(r.Failures), tt.tries, tt.left)
				}
			})
		})
	}
}

// TestHeldUpCaseIsTriedWithMoreTime: on a machine that is slow for every try, the next one
// has a slack that covers what was missing, as far as the store allows the TTL.
func TestHeldUpCaseIsTriedWithMoreTime(t *testing.T) {
	for name, tt := range map[string]struct {
		maxTTL time.Duration
		tries  int
		left   int
	}{
		"unbounded": {time.Hour, 2, 0},
		"bounded":   {2500 * time.Millisecond, maxTries, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				c := Case{Name: "X", Clause: Clauses()[0], needs: all(), body: func(t *scene) {
					tries++
					began := time.Now()
					time.Sleep(1500 * time.Millisecond) // what the machine takes, each time
					t.elapse(t.short - t.slack)
					if time.Since(began) >= t.short {
						t.errorf("too late")
					}
				}}
				store := memstore.New(&memstore.Options{MaxTTL: tt.maxTTL})
				h := &Harness{TTL: 2 * time.Second, Slack: time.Second, Open: func() (driver.Store, error) { return store, nil }}
				r := c.checkAgain(t.Context(), h, t.Logf)
				if tries != tt.tries || len(r.Failures) != tt.left {
					t.Errorf("%d tries and %d failures, want %d and %d", tries, len(r.Failures), tt.tries, tt.left)
				}
			})
		})
	}
}

// TestSlackOfAServerIsNotThatOfACase: a server ends sessions late, so the harness has much slack. A case that was held up by more
// than a quarter of the TTL, and kept its session alive too late, is tried again.
func TestSlackOfAServerIsNotThatOfACase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		c := Case{Name: "X", Clause: Clauses()[0], needs: all(), body: func(t *scene) {
			if tries++; tries == 1 {
				time.Sleep(700 * time.Millisecond)
				t.errorf("too late")
			}
		}}
		store := memstore.New(nil)
		h := &Harness{TTL: 2 * time.Second, Slack: 1500 * time.Millisecond, Open: func() (driver.Store, error) { return store, nil }}
		if r := c.checkAgain(t.Context(), h, t.Logf); tries != 2 || len(r.Failures) != 0 {
			t.Errorf("%d tries and %d failures, want 2 and 0", tries, len(r.Failures))
		}
	})
}
