// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"strings"
	"testing"
)

// coverageSeeds are enough for the rarest thing to happen some times.
const coverageSeeds = 500

// TestCoverage: in some hundred schedules everything that the simulator is for
// has happened.
func TestCoverage(t *testing.T) {
	f := &Fleet{From: 1, Seeds: coverageSeeds, Print: func(s string) { fmt.Print(s) }}
	f.Run(t)
	if missing := f.Coverage.Missing(); len(missing) > 0 {
		t.Errorf("in %d schedules none of these happened:\n  %s", coverageSeeds, strings.Join(missing, "\n  "))
	}
}

func TestCoverageComplains(t *testing.T) {
	var c Coverage
	if got, want := len(c.Missing()), len(wanted()); got != want {
		t.Errorf("%d things are missing in no runs, want all %d", got, want)
	}
	for _, what := range wanted()[1:] {
		c.add(what)
	}
	if got := c.Missing(); len(got) != 1 || got[0] != wanted()[0] {
		t.Errorf("missing are %v, want %v", got, wanted()[:1])
	}
}

// TestMakeIsAFunction: a seed always makes the same schedule, and another seed
// another.
func TestMakeIsAFunction(t *testing.T) {
	seen := map[string]uint64{}
	for seed := range uint64(200) {
		a, b := Make(seed).String(), Make(seed).String()
		if a != b {
			t.Fatalf("seed %d makes\n%s\nand\n%s", seed, a, b)
		}
		if o, ok := seen[strings.TrimPrefix(a, fmt.Sprintf("seed %d", seed))]; ok {
			t.Errorf("seeds %d and %d make the same schedule", o, seed)
		}
		seen[strings.TrimPrefix(a, fmt.Sprintf("seed %d", seed))] = seed
	}
}

func TestOverride(t *testing.T) {
	s := Make(5)
	own := s.Faults()
	s.Override(own)
	if s.Faults() != own {
		t.Errorf("a schedule with its own faults has\n%s, want\n%s", s.Faults(), own)
	}
	s.Override("dup | none")
	if s.Clients[0].Fault != "dup" || s.Clients[len(s.Clients)-1].Fault != "none" || s.Weather != Storm {
		t.Errorf("after Override: %s", s)
	}
}
