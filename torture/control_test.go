// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/fencelock/fencelock/torture/internal/cell"
	"github.com/fencelock/fencelock/torture/internal/check"
	"github.com/fencelock/fencelock/torture/internal/zoo"
)

// TestCages: every animal and its control have a cell that applies, in the same
// place, and a checker that is to catch it.
func TestCages(t *testing.T) {
	for _, a := range zoo.Animals {
		for _, x := range []zoo.Animal{a, a.Control()} {
			c, err := cage(x)
			if err != nil || c.Engine.Name == "" || c.Fault.Name == "" || !c.Applies() {
				t.Errorf("%s has no cell that applies: %v", x.Name, err)
			}
		}
		if _, ok := zoo.Named(a.Control().Name); !ok || len(a.Caught) == 0 {
			t.Errorf("%s has no control called %q, or nothing catches it", a.Name, a.Control().Name)
		}
		if placeOf(a) != placeOf(a.Control()) && a.Control().Name == zoo.Sound {
			t.Errorf("%s and its control are in different places", a.Name)
		}
	}
}

// TestSound: what is said of the sound lock too catches nobody.
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
