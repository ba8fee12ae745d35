// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
)

var redisLongQuestions = []question{redisThousand, redisMillion, redisTenMillion, redisSweep, redisMove, redisBytesValkey}

// redisLong measures what is promised of redisstore with many waiters, locks and
// sessions: minutes, and gigabytes.
func redisLong(ctx context.Context, e *suite.Env, only selection) error {
	questions, err := only.of(redisLongQuestions)
	if err != nil {
		return err
	}
	return askOn(ctx, e, suite.Redis.Start, questions)
}

// redisThousand is with both client libraries: what is sent is counted, and each sends
// for itself.
var redisThousand = question{part: "waiters", metrics: waitersMetrics, gives: []string{
	"redis-commands-handoff-1000", "redis-handoff-growth-1000", "redis-commands-handoff-1000-goredis", "redis-handoff-growth-1000-goredis",
}, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	const few, many = 2, 1000
	var figures []figure.Figure
	var all suite.Cells
	for _, client := range []struct {
		c    *candidate.Candidate
		name string
	}{{candidate.FencelockRueidis, ""}, {candidate.FencelockGoRedis, "-goredis"}} {
		// Long enough for several turns of each.
		cells, err := e.Lasting(3, 2*time.Second).GrowWaiters(ctx, []*candidate.Candidate{client.c}, []int{few, many})
		if err != nil {
			return nil, nil, err
		}
		figures = append(figures,
			figure.Figure{Name: "redis-commands-handoff-1000" + client.name, Value: cells.Of(suite.Waiting(many), client.c.Name).Median(suite.Commands), Goal: figure.AtMost(3)},
			figure.Figure{Name: "redis-handoff-growth-1000" + client.name, Value: growth(cells, client.c, few, many)})
		all = append(all, cells...)
	}
	return figures, all, nil
}}

// redisMillion holds a million leases for two TTLs of 15 s, about seven keep-alives.
var redisMillion = question{part: "holding", metrics: holdingMetrics, gives: []string{
	"redis-keepalives-per-second-1m", "redis-server-core-percent-1m", "redis-bytes-per-lease-1m",
}, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	leases := e.Scaled(1_000_000)
	e.Progress("%s: taking them", suite.LocksHeld(leases))
	holding, err := e.Hold(ctx, ours, leases)
	if err != nil {
		return nil, nil, err
	}
	defer holding.Stop()
	held, err := holding.Finish(ctx, 31*time.Second)
	if err != nil {
		return nil, nil, err
	}
	return []figure.Figure{
		{Name: "redis-keepalives-per-second-1m", Value: held.Median(suite.PerSecond), Goal: figure.AtMost(1)},
		{Name: "redis-server-core-percent-1m", Value: held.Median(suite.ServerCore), Goal: figure.AtMost(1)},
		{Name: "redis-bytes-per-lease-1m", Value: held.Median(suite.ServerBytes), Goal: figure.AtMost(300)},
	}, suite.Cells{held}, nil
}}

// redisBytesValkey is redis-bytes-per-lease on Valkey, which encodes small lists and hashes
// differently. For another version of Redis, put its server first in PATH.
var redisBytesValkey = question{part: "holding", metrics: holdingMetrics, gives: []string{"redis-bytes-per-lease-valkey"},
	ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
		f := figure.Figure{Name: "redis-bytes-per-lease-valkey", Value: math.NaN(), Goal: figure.AtMost(300)}
		there := *e
		there.Start = target.StartValkey
		holding, err := there.Hold(ctx, ours, heldLeases)
		if errors.Is(err, servers.ErrMissing) {
			e.Progress("%v", err)
			return []figure.Figure{f}, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		defer holding.Stop()
		held, err := holding.Finish(ctx, 0)
		if err != nil {
			return nil, nil, err
		}
		f.Value = held.Median(suite.ServerBytes)
		return []figure.Figure{f}, suite.Cells{held}, nil
	}}
