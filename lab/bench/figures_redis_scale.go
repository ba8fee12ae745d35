// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/fill"
	"github.com/fencelock/fencelock/lab/bench/internal/stat"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
	"github.com/fencelock/fencelock/store/redisstore"
)

// What redisstore must carry: readers, sessions and locks by the thousand and million. The
// figures compare many with few, so that they do not depend on the machine.

// redisShared is how much more one reader costs the server among many than among few.
var redisShared = question{part: "fleet", metrics: fleetMetrics, gives: []string{"redis-shared-cpu-growth"},
	ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
		few, many := 10, e.Scaled(10_000)
		cells, err := e.Lasting(3, time.Second).GrowReaders(ctx, []int{few, many})
		if err != nil {
			return nil, nil, err
		}
		return []figure.Figure{{Name: "redis-shared-cpu-growth", Value: cpuGrowth(cells, candidate.FencelockReaders, suite.Readers(few), suite.Readers(many)), Goal: figure.AtMost(1.5)}}, cells, nil
	}}

// cpuGrowth is the ratio of the server's processor time in two cases of one candidate.
func cpuGrowth(cells suite.Cells, c *candidate.Candidate, few, many string) float64 {
	return stat.Ratio(cells.Of(many, c.Name).Values(suite.ServerCPU), cells.Of(few, c.Name).Values(suite.ServerCPU))
}

// keptSessions are kept alive by as many processes.
const keptSessions = 10_000

// redisKeepAlive is what it costs the server that processes live.
var redisKeepAlive = question{part: "holding", metrics: []string{suite.ServerCPU}, gives: []string{
	"redis-keepalive-cpu-usec", "redis-keepalive-core-share-10k", "redis-keepalive-vs-set",
}, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	n := e.Scaled(keptSessions)
	cells, err := e.KeepAlives(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	usec := cells.Of(suite.Sessions(n), suite.KeepAlive).Median(suite.ServerCPU)
	return []figure.Figure{
		{Name: "redis-keepalive-cpu-usec", Value: usec, Goal: figure.AtMost(8)},
		{Name: "redis-keepalive-core-share-10k", Value: coreShare(usec, keptSessions), Goal: figure.AtMost(2)},
		{Name: "redis-keepalive-vs-set", Value: cells.Ratio(suite.Sessions(n), suite.KeepAlive, suite.PlainSet, suite.ServerCPU)},
	}, cells, nil
}}

// coreShare is the percentage of a core that so many sessions with the default TTL take, if
// one keep-alive costs that many µs.
func coreShare(usec float64, sessions int) float64 {
	// A client renews after a third of the time that it trusts a session, which is the TTL
	// without 1 % for drift and 10 % as a margin, or up to a tenth earlier.
	every := 0.95 * 0.89 * float64(fencelock.DefaultTTL.Microseconds()) / 3
	return 100 * usec * float64(sessions) / every
}

// spreadMasters are those of a large cluster.
const spreadMasters = 32

// redisSpread is computed: how many names the busiest of many masters has.
var redisSpread = question{part: "names", gives: []string{"redis-bucket-spread-32"},
	ask: func(context.Context, *suite.Env) ([]figure.Figure, suite.Cells, error) {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}) // never connected
		defer client.Close()
		const buckets = 32 // the default on a cluster
		store, err := redisstore.New(client, &redisstore.Options{Buckets: buckets})
		if err != nil {
			return nil, nil, err
		}
		names := make([]string, 1_000_000)
		for i := range names {
			names[i] = fmt.Sprint("orders/", i)
		}
		counts := fill.Masters(spreadMasters, names, store.Shard, buckets)
		return []figure.Figure{{Name: "redis-bucket-spread-32", Value: stat.Busiest(counts), Goal: figure.AtMost(1.3)}}, nil, nil
	}}

// redisTenMillion is how much more a lock costs the server among many locks than among few, and
// how much more the bare pair costs there.
var redisTenMillion = question{part: "names-10m", metrics: fleetMetrics, gives: []string{"redis-10m-cpu-ratio", "redis-10m-bare-cpu-ratio"},
	ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
		few, many := 10_000, e.Scaled(10_000_000)
		cells, err := e.Lasting(5, time.Second).GrowHeld(ctx, []*candidate.Candidate{ours, candidate.BareRueidis}, []int{few, many})
		if err != nil {
			return nil, nil, err
		}
		return []figure.Figure{
			{Name: "redis-10m-cpu-ratio", Value: cpuGrowth(cells, ours, suite.Names(few), suite.Names(many)), Goal: figure.AtMost(1.2)},
			{Name: "redis-10m-bare-cpu-ratio", Value: cpuGrowth(cells, candidate.BareRueidis, suite.Names(few), suite.Names(many))},
		}, cells, nil
	}}

// redisSweep is what others notice when a process dies with many locks.
var redisSweep = question{part: "holding", metrics: []string{suite.P99, suite.P50, suite.Slowest, suite.Longest, suite.Seconds, suite.Left, suite.Failures},
	gives: []string{"redis-sweep-p99-ratio", "redis-sweep-longest-ms"},
	ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
		cells, err := e.Lasting(3, 2*time.Second).Sweep(ctx, e.Scaled(400_000), e.Scaled(399))
		if err != nil {
			return nil, nil, err
		}
		swept := cells.Of(suite.WhileSwept, ours.Name)
		return []figure.Figure{
			{Name: "redis-sweep-p99-ratio", Value: stat.Ratio(swept.Values(suite.P99), cells.Of(suite.BeforeSweep, ours.Name).Values(suite.P99)), Goal: figure.AtMost(3)},
			// The median of the longest: a machine may once stop a server in the middle of a command.
			{Name: "redis-sweep-longest-ms", Value: swept.Median(suite.Longest), Goal: figure.AtMost(5)},
		}, cells, nil
	}}
