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
