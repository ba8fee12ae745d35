// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"math"
	"slices"

	"github.com/fencelock/fencelock/lab/bench/internal/stat"
)

// The metrics of samples.
const (
	Rate        = "op/s" // an op is a lock and an unlock
	P50         = "p50 µs"
	P99         = "p99 µs"
	Handoff50   = "handoff p50 µs" // from Unlock's call to another's return from Lock
	Handoff99   = "handoff p99 µs"
	Cross       = "cross share" // of acquisitions that came from another worker
	Jain        = "Jain"
	Overlaps    = "overlaps" // two held it at a time
	Commands    = "commands/op"
	Usec        = "server µs/op" // executing commands, by the server's wall clock
	ServerCPU   = "server cpu µs/op"
	CPU         = "client µs/op" // processor time of the clients
	Allocs      = "allocs/op"
	PerSecond   = "commands/s"
	ServerCore  = "server core %"
	ServerBytes = "server B/lock"
	ClientBytes = "client B/lock"
	FillSeconds = "seconds to take all"
	LeftBytes   = "bytes left behind"
	Sent        = "commands"
	Pings       = "pings"
	Failures    = "failed %"
	Slowest     = "slowest op ms"
	Longest     = "longest command ms" // on the server, by its wall clock
	Left        = "left %"             // of the locks that were to be removed
	Silent      = "longest silence ms" // of a server that is asked again and again
	Seconds     = "seconds"
)

// Sample is one repetition of one candidate, by metric.
type Sample map[string]float64

// Cell is what was measured of a candidate in a case.
type Cell struct {
	Case      string
	Candidate string
	Samples   []Sample
	// Failed is why there are no samples.
	Failed string `json:",omitempty"`
}

// Values are the samples of one metric, by repetition: NaN where it was not measured,
// so that the same place is the same repetition in every cell.
func (c *Cell) Values(metric string) []float64 {
	values := make([]float64, len(c.Samples))
	for i, s := range c.Samples {
		v, ok := s[metric]
		if !ok {
			v = math.NaN()
		}
		values[i] = v
	}
	return values
}

// Median is the median of one metric, where it was measured.
func (c *Cell) Median(metric string) float64 { return stat.Median(c.Values(metric)) }

// Cells is what a measurement returns.
type Cells []*Cell

// Of returns a cell, or an empty one.
func (cs Cells) Of(kase, candidate string) *Cell {
	for _, c := range cs {
		if c.Case == kase && c.Candidate == candidate {
			return c
		}
	}
	return &Cell{Case: kase, Candidate: candidate}
}

// Cases are the cases in the order they were run.
func (cs Cells) Cases() []string {
	var cases []string
	for _, c := range cs {
		if !slices.Contains(cases, c.Case) {
			cases = append(cases, c.Case)
		}
	}
	return cases
}

// Candidates are the candidates in the order they were run.
func (cs Cells) Candidates() []string {
	var names []string
	for _, c := range cs {
		if !slices.Contains(names, c.Candidate) {
			names = append(names, c.Candidate)
		}
	}
	return names
}

// Ratio divides a metric of two candidates within the repetitions of a case. It
// is NaN if one of them was not measured.
func (cs Cells) Ratio(kase, a, b, metric string) float64 {
	return stat.Ratio(cs.Of(kase, a).Values(metric), cs.Of(kase, b).Values(metric))
}
