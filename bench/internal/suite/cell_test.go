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
	if got := cells.Of("1 goroutines", "bare").Values(P50); !slices.Equal(got, []float64{1}) {
		t.Errorf("Values = %v: samples without the metric must be left out", got)
	}
	if got, want := cells.Cases(), []string{"1 goroutines", "16 goroutines"}; !slices.Equal(got, want) {
		t.Errorf("Cases = %v, want %v", got, want)
	}
	if got, want := cells.Candidates(), []string{"bare", "ours"}; !slices.Equal(got, want) {
		t.Errorf("Candidates = %v, want %v", got, want)
	}
}
