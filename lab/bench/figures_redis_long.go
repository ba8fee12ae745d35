// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
)

// redisLong is what is promised of redisstore with many waiters, locks and sessions: minutes, and
// gigabytes.
func redisLong() []on {
	return []on{{suite.Redis.Start, []question{
		redisThousand(ours, ""), redisThousand(candidate.FencelockGoRedis, "-goredis"), redisMillion, redisTenMillion, redisSweep, redisMove, redisBytesValkey,
	}}}
}

// redisThousand is with both client libraries: what is sent is counted, and each sends
// for itself. It lasts long enough for several turns of each waiter.
func redisThousand(c *candidate.Candidate, suffix string) question {
	return question{
		part: "waiters", metrics: waitersMetrics, measure: lasting(3, 2*time.Second, growWaiters(c, 2, 1000)),
		figures: []query{
			{"redis-commands-handoff-1000" + suffix, figure.AtMost(3), median(suite.Waiting(1000), c, suite.Commands)},
			{"redis-handoff-growth-1000" + suffix, figure.Bound{}, growth(c, suite.Usec)},
		},
	}
}

// redisMillion holds a million leases for two TTLs of 15 s, about seven keep-alives.
var redisMillion = question{
	part: "holding", metrics: holdingMetrics,
	measure: func(ctx context.Context, e *suite.Env) (suite.Cells, error) {
		return e.Holding(ctx, ours, e.Scaled(1_000_000), 31*time.Second)
	},
	figures: []query{
		{"redis-keepalives-per-second-1m", figure.AtMost(1), median("", ours, suite.PerSecond)},
		{"redis-server-core-percent-1m", figure.AtMost(1), median("", ours, suite.ServerCore)},
		{"redis-bytes-per-lease-1m", figure.AtMost(300), median("", ours, suite.ServerBytes)},
	},
}

// redisBytesValkey is redis-bytes-per-lease on Valkey, which encodes small lists and hashes
// differently. For another version of Redis, put its server first in PATH.
var redisBytesValkey = question{
	part: "holding", metrics: holdingMetrics,
	measure: func(ctx context.Context, e *suite.Env) (suite.Cells, error) {
		there := *e
		there.Start = target.StartValkey
		cells, err := there.Holding(ctx, ours, heldLeases, 0)
		if errors.Is(err, servers.ErrMissing) {
			e.Progress("%v", err)
			return nil, nil
		}
		return cells, err
	},
	figures: []query{{"redis-bytes-per-lease-valkey", figure.AtMost(300), median("", ours, suite.ServerBytes)}},
}
