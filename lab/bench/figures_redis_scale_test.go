// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

func TestGrowth(t *testing.T) {
	cells := suite.Cells{
		{Case: "few", Candidate: ours.Name, Samples: []suite.Sample{{suite.ServerCPU: 10}, {suite.ServerCPU: 20}, {suite.ServerCPU: 40}}},
		{Case: "many", Candidate: ours.Name, Samples: []suite.Sample{{suite.ServerCPU: 15}, {suite.ServerCPU: 40}, {suite.ServerCPU: 200}}},
	}
	if got := growth(ours, suite.ServerCPU)(cells); got != 2 {
		t.Errorf("growth = %v, want the median of 1.5, 2 and 5", got)
	}
}

// TestCoreShare: 10,000 sessions of 15 s are renewed about every 4.2 s, 2,370 in a second.
func TestCoreShare(t *testing.T) {
	if got := coreShare(10, 10_000); got < 2.2 || got > 2.5 {
		t.Errorf("10 µs for each of 10,000 sessions are %v %% of a core, want about 2.4", got)
	}
}
