// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

// moves are how a namespace is moved: with as many buckets as redisstore makes by default,
// and with one bucket, where all locks are in one slot.
var moves = []struct {
	name, kase string
	buckets    int
}{
	{"redis-move-block-ms", "default buckets", 0},
	{"redis-move-block-ms-1-bucket", "one bucket", 1},
}

// redisMove is for how long a master of a cluster does not answer while locks are moved.
var redisMove = question{part: "names", metrics: []string{suite.Silent, suite.P99, suite.P50, suite.Slowest, suite.Seconds, suite.Failures},
	gives: []string{moves[0].name, moves[1].name},
	ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
		var figures []figure.Figure
		var all suite.Cells
		for _, m := range moves {
			cells, err := e.Lasting(1, 3*time.Second).MoveSlots(ctx, e.Scaled(1_000_000), m.buckets)
			if err != nil {
				return nil, nil, err
			}
			figures = append(figures, figure.Figure{Name: m.name, Value: cells[1].Median(suite.Silent), Goal: figure.AtMost(50)})
			for _, c := range cells {
				c.Case = m.kase + ", " + c.Case
			}
			all = append(all, cells...)
		}
		return figures, all, nil
	}}
