// SPDX-License-Identifier: Apache-2.0

package model

import "testing"

// quick is how many states this test sees of each scene with all rules on, and large
// the scene whose counterexamples take millions to find. The whole of them is
// searched by make model, in CI too.
const (
	quick = 50_000
	large = "renewal"
)

// TestRulesAreEnoughAndNeeded asserts both directions.
func TestRulesAreEnoughAndNeeded(t *testing.T) {
	shown := map[int]bool{}
	var small []Scene
	for _, s := range Scenes {
		if s.Name == large {
			for _, off := range s.Shows {
				shown[off] = true
			}
			s.Shows = nil
		}
		small = append(small, s)
	}
	Check(small, quick, func(f Finding) {
		shown[f.Off] = true
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
