// SPDX-License-Identifier: Apache-2.0

// Package suite has the measurements, one file each. A measurement runs its
// candidates in turn, again and again, and returns a cell for each candidate and
// case, with a sample for each repetition:
//
//	repetition 1:  A B C   repetition 2:  B C A   repetition 3:  C A B   ...
//
// Ratios are taken within a repetition, because the load of a machine changes from
// one to the next; what is reported is the median of the ratios.
package suite

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/bench/internal/engine"
	"github.com/fencelock/fencelock/bench/internal/stat"
)

// The metrics of samples.
const (
	Rate       = "acquisitions/s"
	P50        = "p50 µs" // of one lock and unlock
	P99        = "p99 µs" // of one lock and unlock
	Handover50 = "hand-over p50 µs"
	Handover99 = "hand-over p99 µs"
	Cross      = "cross share"
	Jain       = "Jain"
	Overlaps   = "overlaps"
	Commands   = "commands/op"
	Usec       = "server µs/op"
	CPU        = "client µs/op"
	Allocs     = "allocs/op"
)

// Sample is one repetition of one candidate, by metric.
type Sample map[string]float64

// Cell is what was measured of a candidate in a case.
type Cell struct {
	Case      string
	Candidate string
	Samples   []Sample
}

// Values are the samples of one metric, by repetition.
func (c *Cell) Values(metric string) []float64 {
	values := make([]float64, 0, len(c.Samples))
	for _, s := range c.Samples {
		if v, ok := s[metric]; ok {
			values = append(values, v)
		}
	}
	return values
}

// Median is the median of one metric.
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

// Env is where a measurement runs.
type Env struct {
	Redis *engine.Redis
	// Repetitions is how many count; one more comes first, to warm up.
	Repetitions int
	// For is how long each lasts.
	For time.Duration
	// Progress tells people what is going on.
	Progress func(format string, args ...any)
}

// run is one candidate in one case.
type run struct {
	kase, candidate string
	sample          func(ctx context.Context, repetition int) (Sample, error)
}

// interleave runs all in turn, as often as env says.
func (e *Env) interleave(ctx context.Context, runs []run) (Cells, error) {
	cells := make(Cells, len(runs))
	for i, r := range runs {
		cells[i] = &Cell{Case: r.kase, Candidate: r.candidate}
	}
	for repetition := range e.Repetitions + 1 {
		for i := range runs {
			at := (i + repetition) % len(runs)
			r := runs[at]
			s, err := r.sample(ctx, repetition)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", r.kase, r.candidate, err)
			}
			if repetition > 0 {
				cells[at].Samples = append(cells[at].Samples, s)
			}
		}
		e.Progress("%s: repetition %d of %d", runs[0].kase, repetition, e.Repetitions)
	}
	return cells, nil
}

// counted runs work between two readings of the server's counters and returns
// what was counted meanwhile.
func (e *Env) counted(ctx context.Context, work func() error) (engine.Stats, error) {
	if err := e.Redis.ResetStats(ctx); err != nil {
		return nil, err
	}
	if err := work(); err != nil {
		return nil, err
	}
	return e.Redis.Stats(ctx)
}
