// SPDX-License-Identifier: Apache-2.0

package model

import (
	"flag"
	"testing"
)

var walks = flag.Int("model.walks", 20_000, "how many schedules TestWalks runs")

// TestWalks runs random schedules of a world that is too large to be searched.
func TestWalks(t *testing.T) {
	w := NewWalks(Wide, Loose, 1)
	for range *walks {
		if r := w.Walk(); r.Violation != "" {
			t.Fatalf("%s: %q", r.Violation, r.Steps)
		}
	}
	if w.Several < w.Schedules/10 || w.Losses < w.Schedules/2 {
		t.Errorf("%d schedules had %d grants, %d several, and %d losses: too few to show anything", w.Schedules, w.Grants, w.Several, w.Losses)
	}
	t.Logf("%d schedules, %d grants, %d with several, %d losses, no violation", w.Schedules, w.Grants, w.Several, w.Losses)
}

// TestWalksFindViolations: walks that miss a rule stumble on what it is for.
func TestWalksFindViolations(t *testing.T) {
	for _, off := range []int{1, 6} {
		scene := Wide
		scene.Nodes, scene.Renew = 3, false // where there is less to spare
		if off != 6 {
			scene.Losses = 0
		}
		w := NewWalks(scene, All(5, off), 2)
		found := 0
		for range 20_000 {
			if r := w.Walk(); r.Violation != "" {
				found++
			}
		}
		if found == 0 {
			t.Errorf("without R%d no schedule of %d went wrong", off, w.Schedules)
		}
		t.Logf("without R%d %d of %d schedules went wrong", off, found, w.Schedules)
	}
}
