// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"math"
	"slices"
	"testing"
)

var cells = Cells{
	{Case: "1 goroutines", Candidate: "bare", Samples: []Sample{{Rate: 100, P50: 1}, {Rate: 50}, {Rate: 90}}},
	{Case: "1 goroutines", Candidate: "ours", Samples: []Sample{{Rate: 80}, {Rate: 40}, {Rate: 45}}},
	{Case: "16 goroutines", Candidate: "ours", Samples: []Sample{{Rate: 7}}},
}

func TestCells(t *testing.T) {
	if got := cells.Ratio("1 goroutines", "ours", "bare", Rate); got != 0.8 {
		t.Errorf("Ratio = %v, want 0.8: the median of 0.8, 0.8, 0.5", got)
	}
	if got := cells.Ratio("16 goroutines", "ours", "bare", Rate); !math.IsNaN(got) {
		t.Errorf("Ratio to what was not measured = %v, want NaN", got)
	}
	if got := cells.Of("1 goroutines", "bare").Values(P50); len(got) != 3 || got[0] != 1 || !math.IsNaN(got[1]) || !math.IsNaN(got[2]) {
		t.Errorf("Values = %v, want 1 and two places without a value", got)
	}
	if got, want := cells.Cases(), []string{"1 goroutines", "16 goroutines"}; !slices.Equal(got, want) {
		t.Errorf("Cases = %v, want %v", got, want)
	}
	if got, want := cells.Candidates(), []string{"bare", "ours"}; !slices.Equal(got, want) {
		t.Errorf("Candidates = %v, want %v", got, want)
	}
}

// TestRatioKeepsRepetitionsTogether: no lock was handed off in the first repetition of
// one of them. Each of the others is still divided by what was measured beside it, not
// by what moved up into its place.
func TestRatioKeepsRepetitionsTogether(t *testing.T) {
	cells := Cells{
		{Case: "2 processes", Candidate: "bare", Samples: []Sample{{Handoff50: 10}, {Handoff50: 100}, {Handoff50: 1000}}},
		{Case: "2 processes", Candidate: "ours", Samples: []Sample{{Cross: 0}, {Handoff50: 200}, {Handoff50: 2000}}},
	}
	if got := cells.Ratio("2 processes", "ours", "bare", Handoff50); got != 2 {
		t.Errorf("Ratio = %v, want 2", got)
	}
	if got := cells.Of("2 processes", "ours").Median(Handoff50); got != 1100 {
		t.Errorf("Median = %v, want 1100: of the two that were measured", got)
	}
}
