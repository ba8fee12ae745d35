// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

// redisPeers compares with the libraries that are fastest without contention.
var redisPeers = question{part: "uncontended", metrics: uncontendedMetrics, gives: []string{"redis-uncontended-vs-best-peer-64"}, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	peers := []*candidate.Candidate{candidate.RedsyncRueidis, candidate.RedsyncTuned, candidate.RueidislockFast, candidate.Redislock, candidate.RedislockTuned}
	cells, err := e.Uncontended(ctx, append(peers, ours), []int{64})
	if err != nil {
		return nil, nil, err
	}
	return []figure.Figure{
		{Name: "redis-uncontended-vs-best-peer-64", Value: vsBest(cells, suite.Goroutines(64), peers), Goal: figure.AtLeast(2.2)},
	}, cells, nil
}}

// vsBest is the ratio of our rate to that of the fastest of others.
func vsBest(cells suite.Cells, kase string, others []*candidate.Candidate) float64 {
	best := others[0].Name
	for _, c := range others {
		if cells.Of(kase, c.Name).Median(suite.Rate) > cells.Of(kase, best).Median(suite.Rate) {
			best = c.Name
		}
	}
	return cells.Ratio(kase, ours.Name, best, suite.Rate)
}

var localMetrics = []string{suite.Rate, suite.P50, suite.P99, suite.Jain, suite.Commands, suite.CPU, suite.Allocs}

// redisLocal compares with those who are fastest among the goroutines of a process.
var redisLocal = question{part: "local", metrics: localMetrics, gives: []string{"redis-local-vs-best-peer-64", "redis-local-vs-channel-64"}, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	peers := []*candidate.Candidate{candidate.RedsyncRueidis, candidate.RedsyncTuned, candidate.RueidislockFast, candidate.Redislock, candidate.RedislockTuned}
	var crowds []suite.Crowd
	for _, c := range append(peers, ours, candidate.Channel) {
		crowds = append(crowds, suite.Crowd{Candidate: c, Processes: 1, Goroutines: 64})
	}
	cells, err := e.Lasting(e.Repetitions, 300*time.Millisecond).Contended(ctx, crowds)
	if err != nil {
		return nil, nil, err
	}
	kase := crowds[0].Case()
	return []figure.Figure{
		{Name: "redis-local-vs-best-peer-64", Value: vsBest(cells, kase, peers), Goal: figure.AtLeast(50)},
		{Name: "redis-local-vs-channel-64", Value: cells.Ratio(kase, ours.Name, candidate.Channel.Name, suite.Rate), Goal: figure.AtLeast(0.3)},
	}, cells, nil
}}

// redisFair measures how evenly goroutines of a process take turns.
var redisFair = question{part: "local", metrics: localMetrics, gives: []string{"redis-jain-16", "redis-jain-256"}, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	few, many := suite.Crowd{Candidate: ours, Processes: 1, Goroutines: 16}, suite.Crowd{Candidate: ours, Processes: 1, Goroutines: 256}
	cells, err := e.Lasting(e.Repetitions, 300*time.Millisecond).Contended(ctx, []suite.Crowd{few, many})
	if err != nil {
		return nil, nil, err
	}
	return []figure.Figure{
		{Name: "redis-jain-16", Value: cells.Of(few.Case(), ours.Name).Median(suite.Jain), Goal: figure.AtLeast(0.99)},
		{Name: "redis-jain-256", Value: cells.Of(many.Case(), ours.Name).Median(suite.Jain), Goal: figure.AtLeast(0.99)},
	}, cells, nil
}}
