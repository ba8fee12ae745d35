// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/stat"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

// How figures are read from cells. The case "" is the first of them.

func caseOf(cells suite.Cells, kase string) string {
	if kase == "" && len(cells) > 0 {
		return cells[0].Case
	}
	return kase
}

// median is that of a candidate in a case.
func median(kase string, c *candidate.Candidate, metric string) reading {
	return func(cells suite.Cells) float64 { return cells.Of(caseOf(cells, kase), c.Name).Median(metric) }
}

// ratio is that of two candidates within the repetitions of a case.
func ratio(kase string, a, b *candidate.Candidate, metric string) reading {
	return func(cells suite.Cells) float64 { return cells.Ratio(caseOf(cells, kase), a.Name, b.Name, metric) }
}

// growth is how much more a candidate costs in the last case than in the first.
func growth(c *candidate.Candidate, metric string) reading {
	return func(cells suite.Cells) float64 {
		cases := cells.Cases()
		return stat.Ratio(cells.Of(cases[len(cases)-1], c.Name).Values(metric), cells.Of(cases[0], c.Name).Values(metric))
	}
}

// overCases is the least, the median and the most of the medians of a candidate.
func overCases(cells suite.Cells, c *candidate.Candidate, metric string) stat.Spread {
	var medians []float64
	for _, kase := range cells.Cases() {
		medians = append(medians, cells.Of(kase, c.Name).Median(metric))
	}
	return stat.Of(medians)
}

// least and most are those of the medians of a candidate in all cases.
func least(c *candidate.Candidate, metric string) reading {
	return func(cells suite.Cells) float64 { return overCases(cells, c, metric).Min }
}

func most(c *candidate.Candidate, metric string) reading {
	return func(cells suite.Cells) float64 { return overCases(cells, c, metric).Max }
}

// vsBest is the ratio to the best of others. Of a cost it is inverted, so that more is better: what is done
// for each second of the server is the inverse of the time of each.
func vsBest(kase, metric string, others []*candidate.Candidate) reading {
	return func(cells suite.Cells) float64 {
		kase := caseOf(cells, kase)
		order := func(a, b *candidate.Candidate) int {
			return cmp.Compare(cells.Of(kase, a.Name).Median(metric), cells.Of(kase, b.Name).Median(metric))
		}
		if metric == suite.ServerCPU {
			return cells.Ratio(kase, slices.MinFunc(others, order).Name, ours.Name, metric)
		}
		return cells.Ratio(kase, ours.Name, slices.MaxFunc(others, order).Name, metric)
	}
}

// lasting repeats a measurement so often, and for so long each time; 0 leaves it as it is.
func lasting(repetitions int, each time.Duration, measure measurement) measurement {
	return func(ctx context.Context, e *suite.Env) (suite.Cells, error) {
		return measure(ctx, e.Lasting(cmp.Or(repetitions, e.Repetitions), cmp.Or(each, e.For)))
	}
}

// uncontended is with so many goroutines, each with its own name.
func uncontended(levels []int, candidates ...*candidate.Candidate) measurement {
	return func(ctx context.Context, e *suite.Env) (suite.Cells, error) {
		return e.Uncontended(ctx, candidates, levels)
	}
}
