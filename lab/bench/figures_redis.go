// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/stat"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

var (
	// redisQuestions are asked by redisFigures.
	redisQuestions = []question{
		redisFleet, redisUncontended, redisBatches, redisRequests, redisGoRedis, redisHandoffCommands, redisIdle, redisHandoff, redisPeers,
		redisLocal, redisFair, redisFleetPaused, redisShared, redisKeepAlive, redisSpread,
	}
	// redisCounted are asked by redisQuick: counts, and processor time of the server. A rate
	// or a latency has no place there, because a machine that stands still for a second
	// changes it as no regression does, and CI has such machines.
	redisCounted = []question{redisFleet, redisBatches, redisHandoffCommands, redisIdle}
)

// redisFigures measures what is promised of redisstore, in two minutes.
func redisFigures(ctx context.Context, e *suite.Env, only selection) error {
	_, err := askRedis(ctx, e.Lasting(5, 250*time.Millisecond), redisQuestions, only, nil)
	return err
}

// redisQuick counts what the server has to do.
func redisQuick(ctx context.Context, e *suite.Env, floors figure.Floors) ([]figure.Figure, error) {
	return askRedis(ctx, e, redisCounted, nil, floors)
}

// heldLeases is how many leases the holder in the background has.
const heldLeases = 100_000

// askRedis asks with a holder in the background, on a separate server, unless the holder's
// figures are not selected. The holder sends little, and its cost can be judged only after
// several renewals.
func askRedis(ctx context.Context, e *suite.Env, questions []question, only selection, floors figure.Floors) ([]figure.Figure, error) {
	e.Start = suite.Redis.Start
	var holding *suite.Holding
	questions, err := only.of(append(questions, redisHolding(&holding)))
	if err != nil {
		return nil, err
	}
	if questions[len(questions)-1].last {
		holding, err = e.Hold(ctx, ours, heldLeases)
		if err != nil {
			return nil, err
		}
		defer holding.Stop()
	}
	e.Server, err = e.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer e.Server.Stop()
	return ask(ctx, e, questions, floors)
}

// ours is what the figures are about.
var ours = candidate.FencelockRueidis

// rateGoal is the ratio of rates to reach with so many goroutines.
type rateGoal struct {
	goroutines int
	goal       float64
}

// uncontendedGoals are those of the bare server through the same client library.
var uncontendedGoals = []rateGoal{{1, 0.85}, {16, 0.95}, {64, 1.5}, {256, 1.5}, {1024, 1.5}}

// goRedisGoals are the same for go-redis, where one call at a time costs more.
var goRedisGoals = []rateGoal{{1, 0.7}, {16, 0.9}, {64, 1.5}, {256, 1.5}, {1024, 1.5}}

// The names of these figures begin so; how many goroutines there are follows.
const (
	vsBareRueidis = "redis-uncontended-vs-bare"
	vsBareGoRedis = "redis-uncontended-vs-bare-goredis"
	vsBareRequest = "redis-requests-vs-bare"
)

// rateNames are the names of figures that vsBare returns.
func rateNames(name string, goals []rateGoal) (names []string) {
	for _, g := range goals {
		names = append(names, fmt.Sprintf("%s-%d", name, g.goroutines))
	}
	return names
}

var uncontendedMetrics = []string{suite.Rate, suite.P50, suite.P99, suite.Commands, suite.Usec, suite.CPU, suite.Allocs}

var redisUncontended = question{part: "uncontended", metrics: uncontendedMetrics, gives: append(rateNames(vsBareRueidis, uncontendedGoals),
	"redis-server-usec-vs-bare"), ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	bare := candidate.BareRueidis
	figures, cells, err := vsBare(ctx, e, ours, bare, vsBareRueidis, uncontendedGoals)
	if err != nil {
		return nil, nil, err
	}
	alone := suite.Goroutines(1)
	return append([]figure.Figure{
		{Name: "redis-server-usec-vs-bare", Value: cells.Ratio(alone, ours.Name, bare.Name, suite.Usec)},
	}, figures...), cells, nil
}}

// redisGoRedis is the same with the other client library, whose bare calls cost more.
var redisGoRedis = question{part: "uncontended", metrics: uncontendedMetrics, gives: rateNames(vsBareGoRedis, goRedisGoals), ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	return vsBare(ctx, e.Lasting(3, e.For), candidate.FencelockGoRedis, candidate.BareGoRedis, vsBareGoRedis, goRedisGoals)
}}

// redisRequests uses another context for every lock.
var redisRequests = question{part: "requests", metrics: uncontendedMetrics, gives: rateNames(vsBareRequest, uncontendedGoals[:3]), ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	return vsBare(ctx, e.Lasting(3, e.For).Requests(), ours, candidate.BareRueidis, vsBareRequest, uncontendedGoals[:3])
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
	for i, full := range rateNames(name, goals) {
		g := goals[i]
		figures = append(figures, figure.Figure{
			Name:  full,
			Value: cells.Ratio(suite.Goroutines(g.goroutines), ours.Name, bare.Name, suite.Rate), Goal: figure.AtLeast(g.goal),
		})
	}
	return figures, cells, nil
}

// redisBatches counts the commands of one goroutine, and of so many that their calls share
// commands.
var redisBatches = question{part: "uncontended", metrics: uncontendedMetrics, gives: []string{"redis-roundtrips-uncontended", "redis-commands-64"}, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	const many = 64
	cells, err := e.Uncontended(ctx, []*candidate.Candidate{ours}, []int{1, many})
	if err != nil {
		return nil, nil, err
	}
	commands := func(goroutines int) float64 {
		return cells.Of(suite.Goroutines(goroutines), ours.Name).Median(suite.Commands)
	}
	return []figure.Figure{
		{Name: "redis-roundtrips-uncontended", Value: commands(1), Goal: figure.AtMost(2)},
		{Name: "redis-commands-64", Value: commands(many), Goal: figure.AtMost(0.5)},
	}, cells, nil
}}

var waitersMetrics = []string{suite.Rate, suite.Commands, suite.Usec, suite.Jain}

var redisHandoffCommands = question{part: "waiters", metrics: waitersMetrics, gives: []string{"redis-commands-handoff", "redis-handoff-growth"}, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
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

var redisIdle = question{part: "idle", metrics: []string{suite.Sent, suite.Pings}, gives: []string{"redis-idle-commands", "redis-idle-pings"}, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	cells, err := e.Idle(ctx, []*candidate.Candidate{ours}, 30)
	if err != nil {
		return nil, nil, err
	}
	return []figure.Figure{
		{Name: "redis-idle-commands", Value: cells[0].Median(suite.Sent), Goal: figure.AtMost(60)},
		{Name: "redis-idle-pings", Value: cells[0].Median(suite.Pings)}, // of the client library, which asks once a second on each silent connection
	}, cells, nil
}}

var holdingMetrics = []string{suite.PerSecond, suite.ServerCore, suite.ServerBytes, suite.ClientBytes, suite.FillSeconds}

// redisHolding asks last: two renewals of a TTL of 15 s have passed by then.
func redisHolding(holding **suite.Holding) question {
	return question{part: "holding", last: true, metrics: holdingMetrics, gives: []string{"redis-keepalives-per-second", "redis-bytes-per-lease"}, ask: func(ctx context.Context, _ *suite.Env) ([]figure.Figure, suite.Cells, error) {
		held, err := (*holding).Finish(ctx, 11*time.Second)
		if err != nil {
			return nil, nil, err
		}
		return []figure.Figure{
			{Name: "redis-keepalives-per-second", Value: held.Median(suite.PerSecond), Goal: figure.AtMost(1)},
			{Name: "redis-bytes-per-lease", Value: held.Median(suite.ServerBytes), Goal: figure.AtMost(300)},
		}, suite.Cells{held}, nil
	}}
}

var handoffMetrics = []string{suite.Handoff50, suite.Handoff99, suite.Rate, suite.Cross, suite.Jain, suite.Overlaps, suite.Commands, suite.Usec}

// handoffGoal is the ratio to reach, to a ping-pong among as many processes.
type handoffGoal struct {
	processes int
	goal      float64
}

var handoffGoals = []handoffGoal{{2, 2}, {8, 2.2}}

func (g handoffGoal) name() string { return fmt.Sprintf("redis-handoff-vs-pingpong-%d", g.processes) }

var redisHandoff = question{part: "processes", metrics: handoffMetrics, gives: []string{
	handoffGoals[0].name(), handoffGoals[1].name(), "redis-handoff-vs-rueidislock", "redis-handoff-cross-share",
}, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	peer, pingPong := candidate.RueidislockFast, candidate.PingPong
	many := handoffGoals[len(handoffGoals)-1].processes
	crowds := []suite.Crowd{{Candidate: peer, Processes: many}}
	for _, g := range handoffGoals {
		crowds = append(crowds, suite.Crowd{Candidate: pingPong, Processes: g.processes}, suite.Crowd{Candidate: ours, Processes: g.processes})
	}
	cells, err := e.Lasting(e.Repetitions, 400*time.Millisecond).Contended(ctx, crowds)
	if err != nil {
		return nil, nil, err
	}
	var figures []figure.Figure
	cross := 1.0
	for _, g := range handoffGoals {
		kase := suite.Crowd{Processes: g.processes}.Case()
		cell := cells.Of(kase, ours.Name)
		if err := excluded(cell); err != nil {
			return nil, nil, err
		}
		cross = min(cross, cell.Median(suite.Cross))
		figures = append(figures, figure.Figure{
			Name: g.name(), Value: cells.Ratio(kase, ours.Name, pingPong.Name, suite.Handoff50), Goal: figure.AtMost(g.goal),
		})
	}
	kase := suite.Crowd{Processes: many}.Case()
	return append(figures,
		figure.Figure{Name: "redis-handoff-vs-rueidislock", Value: cells.Ratio(kase, ours.Name, peer.Name, suite.Handoff50), Goal: figure.AtMost(0.6)},
		figure.Figure{Name: "redis-handoff-cross-share", Value: cross, Goal: figure.AtLeast(0.9)},
	), cells, nil
}}
