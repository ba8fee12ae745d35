// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
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

// redisSpread is computed: how many names the busiest of many masters has. The store is asked for a name of each
// shard, and the client library to which master that would go; nothing is sent.
var redisSpread = question{part: "names", gives: []string{"redis-bucket-spread-32"},
	ask: func(ctx context.Context, _ *suite.Env) ([]figure.Figure, suite.Cells, error) {
		client := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: evenSlots})
		defer client.Close()
		sent := &keysSent{}
		client.AddHook(sent)
		const buckets = 32 // the default on a cluster
		store, err := redisstore.New(client, &redisstore.Options{Buckets: buckets})
		if err != nil {
			return nil, nil, err
		}
		counts := map[string]*float64{} // names on the master of a shard
		masters := make([]float64, spreadMasters)
		for i := range 1_000_000 {
			name := fmt.Sprint("orders/", i)
			shard := store.Shard(name)
			if counts[shard] == nil {
				_, _ = store.Inspect(ctx, name) // has no answer
				master, err := client.MasterForKey(ctx, sent.last)
				if err != nil {
					return nil, nil, err
				}
				at, err := strconv.Atoi(master.Options().Addr[1:])
				if err != nil {
					return nil, nil, err
				}
				counts[shard] = &masters[at]
			}
			*counts[shard]++
		}
		return []figure.Figure{{Name: "redis-bucket-spread-32", Value: stat.Busiest(masters), Goal: figure.AtMost(1.3)}}, nil, nil
	}}

// evenSlots is a cluster whose masters have as many slots each. Their address is their number.
func evenSlots(context.Context) (all []redis.ClusterSlot, _ error) {
	const slots = 16384
	for i := range spreadMasters {
		all = append(all, redis.ClusterSlot{
			Start: i * slots / spreadMasters, End: (i+1)*slots/spreadMasters - 1, Nodes: []redis.ClusterNode{{Addr: fmt.Sprint(":", i)}},
		})
	}
	return all, nil
}

// keysSent is a hook that answers nothing and notes the key of the last script.
type keysSent struct{ last string }

// DialHook implements redis.Hook.
func (k *keysSent) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (k *keysSent) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (k *keysSent) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		k.last = fmt.Sprint(cmd.Args()[3]) // after the script and the number of its keys
		return redis.ErrClosed
	}
}

// redisTenMillion is how much more a lock costs the server among many locks than among few, and
// how much more the bare pair costs there.
var redisTenMillion = question{part: "names-10m", metrics: fleetMetrics, gives: []string{"redis-10m-cpu-ratio", "redis-10m-bare-cpu-ratio"},
	ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
		few, many := 10_000, e.Scaled(10_000_000)
		cells, err := e.Lasting(5, time.Second).GrowNames(ctx, []*candidate.Candidate{ours, candidate.BareRueidis}, []int{few, many})
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

const (
	fleetClients = 64
	// fleetPause is what makes a fleet like one in production, where no client locks
	// all the time: the server then reads one command at a time.
	fleetPause = 20 * time.Millisecond
)

// fleetPeers are what others use on one server; the best of them costs the server least.
var fleetPeers = []*candidate.Candidate{candidate.RedsyncRueidis, candidate.Redislock, candidate.RueidislockFast}

var fleetMetrics = []string{suite.ServerCPU, suite.Rate, suite.Commands, suite.CPU, suite.P50, suite.P99}

// redisFleet is what one server can do for clients that each lock their own name.
var redisFleet = question{part: "fleet", metrics: fleetMetrics, gives: []string{"redis-fleet-cpu-vs-bare", "redis-fleet-pairs-vs-best-peer"},
	ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
		bare := candidate.BareRueidis
		cells, err := e.Fleet(ctx, append([]*candidate.Candidate{bare, ours}, fleetPeers...), fleetClients, 0)
		if err != nil {
			return nil, nil, err
		}
		kase := suite.Clients(fleetClients, 0)
		return []figure.Figure{
			{Name: "redis-fleet-cpu-vs-bare", Value: cells.Ratio(kase, ours.Name, bare.Name, suite.ServerCPU), Goal: figure.AtMost(1.13)},
			{Name: "redis-fleet-pairs-vs-best-peer", Value: pairsVsBest(cells, kase, fleetPeers), Goal: figure.AtLeast(1)},
		}, cells, nil
	}}

// redisFleetPaused is the same with clients that do something else most of the time.
var redisFleetPaused = question{part: "fleet", metrics: fleetMetrics, gives: []string{"redis-fleet-cpu-vs-bare-paused"},
	ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
		bare := candidate.BareRueidis
		// Long enough for 20 pairs of each client.
		cells, err := e.AtLeast(20*fleetPause).Fleet(ctx, []*candidate.Candidate{bare, ours}, fleetClients, fleetPause)
		if err != nil {
			return nil, nil, err
		}
		kase := suite.Clients(fleetClients, fleetPause)
		return []figure.Figure{
			{Name: "redis-fleet-cpu-vs-bare-paused", Value: cells.Ratio(kase, ours.Name, bare.Name, suite.ServerCPU), Goal: figure.AtMost(1.25)},
		}, cells, nil
	}}

// pairsVsBest is how many pairs a second of the server's processor time is enough for, as a
// ratio to the best of others. Pairs for each second are the inverse of time for each pair.
func pairsVsBest(cells suite.Cells, kase string, others []*candidate.Candidate) float64 {
	best := others[0].Name
	for _, c := range others {
		if cells.Of(kase, c.Name).Median(suite.ServerCPU) < cells.Of(kase, best).Median(suite.ServerCPU) {
			best = c.Name
		}
	}
	return cells.Ratio(kase, best, ours.Name, suite.ServerCPU)
}
