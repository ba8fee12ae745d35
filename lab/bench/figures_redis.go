// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
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

// The metrics that are shown.
var (
	uncontendedMetrics = []string{suite.Rate, suite.P50, suite.P99, suite.Commands, suite.Usec, suite.CPU, suite.Allocs}
	localMetrics       = []string{suite.Rate, suite.P50, suite.P99, suite.Jain, suite.Commands, suite.CPU, suite.Allocs}
	waitersMetrics     = []string{suite.Rate, suite.Commands, suite.Usec, suite.Jain}
	holdingMetrics     = []string{suite.PerSecond, suite.ServerCore, suite.ServerBytes, suite.ClientBytes, suite.FillSeconds}
	handoffMetrics     = []string{suite.Handoff50, suite.Handoff99, suite.Rate, suite.Cross, suite.Jain, suite.Overlaps, suite.Commands, suite.Usec}
)

// levels are the numbers of goroutines without contention.
var levels = []int{1, 16, 64, 256, 1024}

// vsBare are the ratios of rates to the bare server through the same client library, with a goal for each
// level.
func vsBare(name string, ours, bare *candidate.Candidate, goals ...float64) (all []query) {
	for i, goal := range goals {
		all = append(all, query{fmt.Sprintf("%s-%d", name, levels[i]), figure.AtLeast(goal), ratio(suite.Goroutines(levels[i]), ours, bare, suite.Rate)})
	}
	return all
}

var redisUncontended = question{
	part: "uncontended", metrics: uncontendedMetrics, measure: uncontended(levels, candidate.BareRueidis, ours),
	figures: append([]query{{"redis-server-usec-vs-bare", figure.Bound{}, ratio(suite.Goroutines(1), ours, candidate.BareRueidis, suite.Usec)}},
		vsBare("redis-uncontended-vs-bare", ours, candidate.BareRueidis, 0.85, 0.95, 1.5, 1.5, 1.5)...),
}

// redisGoRedis is the same with the other client library, whose bare calls cost more, above all one at a time.
var redisGoRedis = question{
	part: "uncontended", metrics: uncontendedMetrics, measure: lasting(3, 0, uncontended(levels, candidate.BareGoRedis, candidate.FencelockGoRedis)),
	figures: vsBare("redis-uncontended-vs-bare-goredis", candidate.FencelockGoRedis, candidate.BareGoRedis, 0.7, 0.9, 1.5, 1.5, 1.5),
}

// redisRequests uses another context for every lock.
var redisRequests = question{
	part: "requests", metrics: uncontendedMetrics,
	measure: lasting(3, 0, func(ctx context.Context, e *suite.Env) (suite.Cells, error) {
		return uncontended(levels[:3], candidate.BareRueidis, ours)(ctx, e.Requests())
	}),
	figures: vsBare("redis-requests-vs-bare", ours, candidate.BareRueidis, 0.85, 0.95, 1.5),
}

// redisBatches counts the commands of one goroutine, and of so many that their calls share
// commands.
var redisBatches = question{
	part: "uncontended", metrics: uncontendedMetrics, measure: uncontended([]int{1, 64}, ours),
	figures: []query{
		{"redis-roundtrips-uncontended", figure.AtMost(2), median(suite.Goroutines(1), ours, suite.Commands)},
		{"redis-commands-64", figure.AtMost(0.5), median(suite.Goroutines(64), ours, suite.Commands)},
	},
}

// growWaiters is with so many waiters.
func growWaiters(c *candidate.Candidate, sizes ...int) measurement {
	return func(ctx context.Context, e *suite.Env) (suite.Cells, error) {
		return e.GrowWaiters(ctx, []*candidate.Candidate{c}, sizes)
	}
}

var redisHandoffCommands = question{
	part: "waiters", metrics: waitersMetrics, measure: lasting(3, 400*time.Millisecond, growWaiters(ours, 2, 16, 200)),
	figures: []query{
		{"redis-commands-handoff", figure.AtMost(3), most(ours, suite.Commands)},
		{"redis-handoff-growth", figure.AtMost(1.2), growth(ours, suite.Usec)},
	},
}

var redisIdle = question{
	part: "idle", metrics: []string{suite.Sent, suite.Pings},
	measure: func(ctx context.Context, e *suite.Env) (suite.Cells, error) {
		return e.Idle(ctx, []*candidate.Candidate{ours}, 30)
	},
	figures: []query{
		{"redis-idle-commands", figure.AtMost(60), median("", ours, suite.Sent)},
		{"redis-idle-pings", figure.Bound{}, median("", ours, suite.Pings)}, // of the client library, which asks once a second on each silent connection
	},
}

// redisHolding asks last: two renewals of a TTL of 15 s have passed by then.
func redisHolding(holding **suite.Holding) question {
	return question{
		part: "holding", last: true, metrics: holdingMetrics,
		measure: func(ctx context.Context, _ *suite.Env) (suite.Cells, error) {
			return (*holding).Finish(ctx, 11*time.Second)
		},
		figures: []query{
			{"redis-keepalives-per-second", figure.AtMost(1), median("", ours, suite.PerSecond)},
			{"redis-bytes-per-lease", figure.AtMost(300), median("", ours, suite.ServerBytes)},
		},
	}
}

// contended lets crowds have one lock in turn. That two of ours held it at the same time is an error.
func contended(crowds ...suite.Crowd) measurement {
	return func(ctx context.Context, e *suite.Env) (suite.Cells, error) {
		cells, err := e.Contended(ctx, crowds)
		if err != nil {
			return nil, err
		}
		for _, c := range crowds {
			if c.Candidate == ours || c.Candidate == candidate.FencelockLinger {
				err = errors.Join(err, excluded(cells.Of(c.Case(), c.Candidate.Name)))
			}
		}
		return cells, err
	}
}

// twoProcesses and eightProcesses are cases.
var twoProcesses, eightProcesses = suite.Crowd{Processes: 2}.Case(), suite.Crowd{Processes: 8}.Case()

var redisHandoff = question{
	part: "processes", metrics: handoffMetrics,
	measure: lasting(0, 400*time.Millisecond, contended(
		suite.Crowd{Candidate: candidate.RueidislockFast, Processes: 8},
		suite.Crowd{Candidate: candidate.PingPong, Processes: 2}, suite.Crowd{Candidate: ours, Processes: 2},
		suite.Crowd{Candidate: candidate.PingPong, Processes: 8}, suite.Crowd{Candidate: ours, Processes: 8})),
	figures: []query{
		{"redis-handoff-vs-pingpong-2", figure.AtMost(2), ratio(twoProcesses, ours, candidate.PingPong, suite.Handoff50)},
		{"redis-handoff-vs-pingpong-8", figure.AtMost(2.2), ratio(eightProcesses, ours, candidate.PingPong, suite.Handoff50)},
		{"redis-handoff-vs-rueidislock", figure.AtMost(0.6), ratio(eightProcesses, ours, candidate.RueidislockFast, suite.Handoff50)},
		{"redis-handoff-cross-share", figure.AtLeast(0.9), least(ours, suite.Cross)},
	},
}

// redisFastest are the libraries that are fastest without contention, and among the goroutines of a process.
var redisFastest = []*candidate.Candidate{candidate.RedsyncRueidis, candidate.RedsyncTuned, candidate.RueidislockFast, candidate.Redislock, candidate.RedislockTuned}

var redisPeers = question{
	part: "uncontended", metrics: uncontendedMetrics, measure: uncontended([]int{64}, append(slices.Clone(redisFastest), ours)...),
	figures: []query{{"redis-uncontended-vs-best-peer-64", figure.AtLeast(2.2), vsBest("", suite.Rate, redisFastest)}},
}

var redisLocal = question{
	part: "local", metrics: localMetrics,
	measure: lasting(0, 300*time.Millisecond, func(ctx context.Context, e *suite.Env) (suite.Cells, error) {
		var crowds []suite.Crowd
		for _, c := range append(slices.Clone(redisFastest), ours, candidate.Channel) {
			crowds = append(crowds, suite.Crowd{Candidate: c, Processes: 1, Goroutines: 64})
		}
		return e.Contended(ctx, crowds)
	}),
	figures: []query{
		{"redis-local-vs-best-peer-64", figure.AtLeast(50), vsBest("", suite.Rate, redisFastest)},
		{"redis-local-vs-channel-64", figure.AtLeast(0.3), ratio("", ours, candidate.Channel, suite.Rate)},
	},
}

// fairCrowds are few and many goroutines of a process.
var fairCrowds = []suite.Crowd{{Candidate: ours, Processes: 1, Goroutines: 16}, {Candidate: ours, Processes: 1, Goroutines: 256}}

// redisFair measures how evenly goroutines of a process take turns.
var redisFair = question{
	part: "local", metrics: localMetrics,
	measure: lasting(0, 300*time.Millisecond, contended(fairCrowds...)),
	figures: []query{
		{"redis-jain-16", figure.AtLeast(0.99), median(fairCrowds[0].Case(), ours, suite.Jain)},
		{"redis-jain-256", figure.AtLeast(0.99), median(fairCrowds[1].Case(), ours, suite.Jain)},
	},
}
