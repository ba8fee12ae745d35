// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/fencelock/fencelock/lab/torture/internal/brokenlock"
	"github.com/fencelock/fencelock/lab/torture/internal/cell"
	"github.com/fencelock/fencelock/lab/torture/internal/check"
)

// TestBrokenLocksHaveCells: every lock and its control have a cell that applies, in the same
// place, and a checker that is to catch it.
func TestBrokenLocksHaveCells(t *testing.T) {
	for _, a := range brokenlock.Locks {
		for _, x := range []brokenlock.Lock{a, a.Control()} {
			c, err := cellOf(x)
			if err != nil || c.Deployment.Name == "" || c.Fault.Name == "" || !c.Applies() {
				t.Errorf("%s has no cell that applies: %v", x.Name, err)
			}
		}
		if _, ok := brokenlock.Named(a.Control().Name); !ok || len(a.Caught) == 0 {
			t.Errorf("%s has no control called %q, or nothing catches it", a.Name, a.Control().Name)
		}
		if placeOf(a) != placeOf(a.Control()) && a.Control().Name == brokenlock.Sound {
			t.Errorf("%s and its control are in different places", a.Name)
		}
	}
}

// TestSound: a checker that objects to the sound lock, too, catches no broken lock.
func TestSound(t *testing.T) {
	overlap := []check.Violation{{Check: "D3", Property: check.T}}
	for _, tt := range []struct {
		name    string
		control cell.Result
		ok      bool
	}{
		{"held", cell.Result{Status: cell.Held}, true},
		{"refused", cell.Result{Status: cell.Failed}, false},
		{"not run", cell.Result{Status: cell.NotRun}, false},
		{"missing", cell.Result{}, false},
		{"allowed, by the same checker", cell.Result{Status: cell.Allowed, Violations: overlap}, false},
		{"allowed, by another one", cell.Result{Status: cell.Allowed, Violations: []check.Violation{{Check: "D7", Property: check.N}}}, true},
		{"a measure", cell.Result{Status: cell.Allowed, Violations: []check.Violation{{Check: "D3", Property: check.U}}}, true},
	} {
		if err := sound(tt.control, []string{"D3"}); (err == nil) != tt.ok {
			t.Errorf("%s: got %v, want sound %v", tt.name, err, tt.ok)
		}
	}
}
