// SPDX-License-Identifier: Apache-2.0

package model

import "testing"

// quick is how many states this test sees of each scene with all rules on. The whole of them
// is searched by make model, in CI too.
const quick = 100_000

// slow are the rules whose counterexamples take seconds to find. make model finds them, and
// TestCounterexamplesOfSlowRules follows those that were found before.
var slow = map[int]bool{8: true, 9: true, 10: true, 12: true, 13: true, 14: true, 16: true}

// TestRulesAreEnoughAndNeeded asserts both directions.
func TestRulesAreEnoughAndNeeded(t *testing.T) {
	shown := map[int]bool{}
	var small []Scene
	for _, s := range Scenes {
		var quickly []int
		for _, off := range s.Shows {
			if shown[off] = true; !slow[off] {
				quickly = append(quickly, off)
			}
		}
		s.Shows = quickly
		small = append(small, s)
	}
	Check(small, quick, func(f Finding) {
		switch {
		case f.Off == 0 && !f.Good():
			t.Errorf("%s: with all rules on: %s: %q", f.Scene, f.Violation, f.Steps)
		case !f.Good():
			t.Errorf("%s: without R%d nothing was found in %d states", f.Scene, f.Off, f.States)
		}
	})
	for off := 1; off < len(Rules{}); off++ {
		if !shown[off] {
			t.Errorf("no scene shows that R%d is needed", off)
		}
	}
}

// TestCounterexampleIsAHistory: what a search prints can be read from the start to
// the violation.
func TestCounterexampleIsAHistory(t *testing.T) {
	r := Search(Scenes[0], All(1), Limit)
	if len(r.Steps) != 9 || r.Steps[0] != "c0 begins" || r.Steps[8] != "c1 is granted -> 2" {
		t.Errorf("got %s by %q, want the nine steps in which two get token 2", r.Violation, r.Steps)
	}
}
