// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
)

// Quorum is the suite of five Redis servers of which a majority decides.
var Quorum = &Suite{Name: "quorum", Start: target.StartFive, Parts: []*Part{quorumUncontended, quorumFaults}}

var quorumCandidates = []*candidate.Candidate{
	candidate.BareQuorum, candidate.FencelockQuorum, candidate.RedsyncQuorum, candidate.RedsyncFailFast,
}

var quorumUncontended = &Part{
	Name: "uncontended", Title: "Uncontended lock, on five servers",
	Text: "Each goroutine of one process locks and unlocks its own name. The ratio is the rate divided by that of SET NX PX and compare-and-delete on all " +
		"five at once, done when three have answered. Commands and server µs are the sum of four of the five.",
	Metrics: []string{Rate, P50, P99, Commands, Usec, CPU, Allocs},
	Ratio:   Rate, Chart: Chart{Metric: Rate, X: "goroutines"},
	Run: func(ctx context.Context, e *Env) (Cells, error) {
		return e.Uncontended(ctx, quorumCandidates, []int{1, 16, 64})
	},
}

var quorumFaults = &Part{
	Name: "faults", Title: "One of five servers stalled, or dead",
	Text:    "Sixteen goroutines of one process, each with its own name. The measurement begins four seconds after the fault. An operation that fails is counted and tried again.",
	Metrics: []string{P99, P50, Rate, Failures, Commands, CPU},
	Chart:   Chart{Metric: P99, Bars: true},
	Run: func(ctx context.Context, e *Env) (Cells, error) {
		return e.Faulty(ctx, quorumCandidates, []Fault{
			{"all well", func(target.Server) (func(), error) { return nil, nil }},
			{"one stalled", func(s target.Server) (func(), error) { return s.(*target.Redises).Stall(), nil }},
			{"one dead", func(s target.Server) (func(), error) { s.(*target.Redises).Kill(); return nil, nil }},
		})
	},
}
