// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/bench/internal/candidate"
	"github.com/fencelock/fencelock/bench/internal/stat"
	"github.com/fencelock/fencelock/bench/internal/suite"
	"github.com/fencelock/fencelock/internal/figure"
)

// redisFigures measures what is promised of redisstore, in a minute.
func redisFigures(ctx context.Context, e *suite.Env) error {
	_, err := askRedis(ctx, e.Lasting(5, 250*time.Millisecond), []question{redisUncontended, redisRequests, redisGoRedis, redisHandoffCommands, redisIdle, redisHandoff}, nil)
	return err
}

// redisQuick measures that and how it compares with others, in a shorter time.
func redisQuick(ctx context.Context, e *suite.Env, floors figure.Floors) ([]figure.Figure, error) {
	return askRedis(ctx, e, []question{redisUncontended, redisRequests, redisGoRedis, redisHandoffCommands, redisIdle, redisHandoff, redisPeers, redisLocal, redisFair}, floors)
}

// heldLeases are held meanwhile.
const heldLeases = 100_000

// askRedis asks with a holder in the background: it sits on a server of its own and
// is silent most of the time, and it takes some renewals to judge.
func askRedis(ctx context.Context, e *suite.Env, questions []question, floors figure.Floors) ([]figure.Figure, error) {
	e.Start = suite.Redis.Start
	holding, err := e.Hold(ctx, ours, heldLeases)
	if err != nil {
		return nil, err
	}
	defer holding.Stop()
	e.Server, err = e.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer e.Server.Stop()
	return ask(ctx, e, append(questions, redisHolding(holding)), floors)
}

// ours is what the figures are about.
var ours = candidate.FencelockRueidis

// rateGoal is the ratio of rates to reach with so many goroutines.
type rateGoal struct {
	goroutines int
	goal       float64
}

// uncontendedGoals are those of the bare server through the same client library.
var uncontendedGoals = []rateGoal{{1, 0.8}, {16, 0.9}, {64, 1.5}, {256, 1.5}, {1024, 1.5}}

var uncontendedMetrics = []string{suite.Rate, suite.P50, suite.P99, suite.Commands, suite.Usec, suite.CPU, suite.Allocs}

var redisUncontended = question{part: "uncontended", metrics: uncontendedMetrics, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	bare := candidate.BareRueidis
	figures, cells, err := vsBare(ctx, e, ours, bare, "redis-uncontended-vs-bare", uncontendedGoals)
	if err != nil {
		return nil, nil, err
	}
	alone := suite.Goroutines(1)
	return append([]figure.Figure{
		{Name: "redis-roundtrips-uncontended", Value: cells.Of(alone, ours.Name).Median(suite.Commands), Goal: figure.AtMost(2)},
		{Name: "redis-server-usec-vs-bare", Value: cells.Ratio(alone, ours.Name, bare.Name, suite.Usec)},
	}, figures...), cells, nil
}}

// redisGoRedis is the same with the other client library, whose bare calls cost more.
var redisGoRedis = question{part: "uncontended", metrics: uncontendedMetrics, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	return vsBare(ctx, e.Lasting(3, e.For), candidate.FencelockGoRedis, candidate.BareGoRedis, "redis-uncontended-vs-bare-goredis", uncontendedGoals)
}}

// redisRequests is with a context of its own for every lock.
var redisRequests = question{part: "requests", metrics: uncontendedMetrics, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	return vsBare(ctx, e.Lasting(3, e.For).Requests(), ours, candidate.BareRueidis, "redis-requests-vs-bare", uncontendedGoals[:3])
}}

// vsBare compares rates with the bare server through the same client library.
func vsBare(ctx context.Context, e *suite.Env, ours, bare *candidate.Candidate, name string, goals []rateGoal) ([]figure.Figure, suite.Cells, error) {
	var levels []int
	for _, g := range goals {
		levels = append(levels, g.goroutines)
	}
	cells, err := e.Uncontended(ctx, []*candidate.Candidate{bare, ours}, levels)
	if err != nil {
		return nil, nil, err
	}
	var figures []figure.Figure
	for _, g := range goals {
		figures = append(figures, figure.Figure{
			Name:  fmt.Sprintf("%s-%d", name, g.goroutines),
			Value: cells.Ratio(suite.Goroutines(g.goroutines), ours.Name, bare.Name, suite.Rate), Goal: figure.AtLeast(g.goal),
		})
	}
	return figures, cells, nil
}

var waitersMetrics = []string{suite.Rate, suite.Commands, suite.Usec, suite.Jain}

var redisHandoffCommands = question{part: "waiters", metrics: waitersMetrics, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	sizes := []int{2, 16, 200}
	cells, err := e.Lasting(3, 400*time.Millisecond).GrowWaiters(ctx, []*candidate.Candidate{ours}, sizes)
	if err != nil {
		return nil, nil, err
	}
	worst := 0.0
	for _, n := range sizes {
		worst = max(worst, cells.Of(suite.Waiting(n), ours.Name).Median(suite.Commands))
	}
	return []figure.Figure{
		{Name: "redis-commands-handoff", Value: worst, Goal: figure.AtMost(3)},
		{Name: "redis-handoff-growth", Value: growth(cells, ours, 2, 200), Goal: figure.AtMost(1.2)},
	}, cells, nil
}}

// growth is how much more a server does for a handoff among many than among few.
func growth(cells suite.Cells, c *candidate.Candidate, few, many int) float64 {
	usec := func(n int) []float64 { return cells.Of(suite.Waiting(n), c.Name).Values(suite.Usec) }
	return stat.Ratio(usec(many), usec(few))
}

var redisIdle = question{part: "idle", metrics: []string{suite.Sent, suite.Pings}, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	cells, err := e.Idle(ctx, []*candidate.Candidate{ours}, 30)
	if err != nil {
		return nil, nil, err
	}
	return []figure.Figure{
		{Name: "redis-idle-commands", Value: cells[0].Median(suite.Sent), Goal: figure.AtMost(60)},
		{Name: "redis-idle-pings", Value: cells[0].Median(suite.Pings)}, // of the client library, which asks once a second on each silent connection
	}, cells, nil
}}

var handoffMetrics = []string{suite.Handoff50, suite.Handoff99, suite.Rate, suite.Cross, suite.Jain, suite.Overlaps, suite.Commands, suite.Usec}

var redisHandoff = question{part: "processes", metrics: handoffMetrics, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	peer, pingPong := candidate.RueidislockFast, candidate.PingPong
	two, eight := suite.Crowd{Candidate: ours, Processes: 2}, suite.Crowd{Candidate: ours, Processes: 8}
	cells, err := e.Lasting(e.Repetitions, 400*time.Millisecond).Contended(ctx, []suite.Crowd{
		{Candidate: pingPong, Processes: 2}, two, eight, {Candidate: peer, Processes: 8},
	})
	if err != nil {
		return nil, nil, err
	}
	bare := cells.Of(two.Case(), pingPong.Name).Values(suite.Handoff50)
	worst, cross := 0.0, 1.0
	for _, crowd := range []suite.Crowd{two, eight} {
		cell := cells.Of(crowd.Case(), ours.Name)
		worst = max(worst, stat.Ratio(cell.Values(suite.Handoff50), bare))
		cross = min(cross, cell.Median(suite.Cross))
		if err := excluded(cell); err != nil {
			return nil, nil, err
		}
	}
	return []figure.Figure{
		{Name: "redis-handoff-vs-pingpong", Value: worst, Goal: figure.AtMost(2)},
		{Name: "redis-handoff-vs-rueidislock", Value: cells.Ratio(eight.Case(), ours.Name, peer.Name, suite.Handoff50), Goal: figure.AtMost(0.6)},
		{Name: "redis-handoff-cross-share", Value: cross, Goal: figure.AtLeast(0.9)},
	}, cells, nil
}}

var holdingMetrics = []string{suite.PerSecond, suite.ServerCore, suite.ServerBytes, suite.ClientBytes, suite.FillSeconds}

// redisHolding asks last: two renewals of a TTL of 15 s have passed by then.
func redisHolding(holding *suite.Holding) question {
	return question{part: "holding", last: true, metrics: holdingMetrics, ask: func(ctx context.Context, _ *suite.Env) ([]figure.Figure, suite.Cells, error) {
		held, err := holding.Finish(ctx, 11*time.Second)
		if err != nil {
			return nil, nil, err
		}
		return []figure.Figure{
			{Name: "redis-keepalives-per-second", Value: held.Median(suite.PerSecond), Goal: figure.AtMost(1)},
			{Name: "redis-bytes-per-lease", Value: held.Median(suite.ServerBytes), Goal: figure.AtMost(200)},
		}, suite.Cells{held}, nil
	}}
}
