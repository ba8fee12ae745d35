// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

// TestVsBest: the best of others is the one that costs the server least, and the
// ratio is taken within repetitions.
func TestVsBest(t *testing.T) {
	cell := func(c *candidate.Candidate, usec ...float64) *suite.Cell {
		cell := &suite.Cell{Case: "fleet", Candidate: c.Name}
		for _, v := range usec {
			cell.Samples = append(cell.Samples, suite.Sample{suite.ServerCPU: v})
		}
		return cell
	}
	cells := suite.Cells{
		cell(ours, 20, 40, 60), // the machine became busier
		cell(candidate.RedsyncRueidis, 10, 20, 15),
		cell(candidate.Redislock, 30, 30, 30),
	}
	got := vsBest("fleet", suite.ServerCPU, []*candidate.Candidate{candidate.Redislock, candidate.RedsyncRueidis})(cells)
	if got != 0.5 {
		t.Errorf("pairs for a core-second: %v of those of the best, want 0.5", got)
	}
}
