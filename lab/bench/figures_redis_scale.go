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
var redisShared = question{
	part: "fleet", metrics: fleetMetrics,
	measure: lasting(3, time.Second, func(ctx context.Context, e *suite.Env) (suite.Cells, error) {
		return e.GrowReaders(ctx, []int{10, e.Scaled(10_000)})
	}),
	figures: []query{{"redis-shared-cpu-growth", figure.AtMost(1.5), growth(candidate.FencelockReaders, suite.ServerCPU)}},
}

// keptSessions are kept alive by as many processes.
const keptSessions = 10_000

// keepAlive and plainSet are what is compared.
var keepAlive, plainSet = &candidate.Candidate{Name: suite.KeepAlive}, &candidate.Candidate{Name: suite.PlainSet}

// redisKeepAlive is what it costs the server that processes live.
var redisKeepAlive = question{
	part: "holding", metrics: []string{suite.ServerCPU},
	measure: func(ctx context.Context, e *suite.Env) (suite.Cells, error) {
		return e.KeepAlives(ctx, e.Scaled(keptSessions))
	},
	figures: []query{
		{"redis-keepalive-cpu-usec", figure.AtMost(8), median("", keepAlive, suite.ServerCPU)},
		{"redis-keepalive-core-share-10k", figure.AtMost(2), func(cells suite.Cells) float64 {
			return coreShare(median("", keepAlive, suite.ServerCPU)(cells), keptSessions)
		}},
		{"redis-keepalive-vs-set", figure.Bound{}, ratio("", keepAlive, plainSet, suite.ServerCPU)},
	},
}

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
var redisSpread = question{part: "names", figures: []query{{name: "redis-bucket-spread-32", goal: figure.AtMost(1.3)}},
	count: func(ctx context.Context, _ *suite.Env) ([]float64, error) {
		client := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: evenSlots})
		defer client.Close()
		sent := &keysSent{}
		client.AddHook(sent)
		const buckets = 32 // the default on a cluster
		store, err := redisstore.New(client, &redisstore.Options{Buckets: buckets})
		if err != nil {
			return nil, err
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
					return nil, err
				}
				at, err := strconv.Atoi(master.Options().Addr[1:])
				if err != nil {
					return nil, err
				}
				counts[shard] = &masters[at]
			}
			*counts[shard]++
		}
		return []float64{stat.Busiest(masters)}, nil
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
var redisTenMillion = question{
	part: "names-10m", metrics: fleetMetrics,
	measure: lasting(5, time.Second, func(ctx context.Context, e *suite.Env) (suite.Cells, error) {
		return e.GrowNames(ctx, []*candidate.Candidate{ours, candidate.BareRueidis}, []int{10_000, e.Scaled(10_000_000)})
	}),
	figures: []query{
		{"redis-10m-cpu-ratio", figure.AtMost(1.2), growth(ours, suite.ServerCPU)},
		{"redis-10m-bare-cpu-ratio", figure.Bound{}, growth(candidate.BareRueidis, suite.ServerCPU)},
	},
}

// redisSweep is what others notice when a process dies with many locks.
var redisSweep = question{
	part: "holding", metrics: []string{suite.P99, suite.P50, suite.Slowest, suite.Longest, suite.Seconds, suite.Left, suite.Failures},
	measure: lasting(3, 2*time.Second, func(ctx context.Context, e *suite.Env) (suite.Cells, error) {
		return e.Sweep(ctx, e.Scaled(400_000), e.Scaled(399))
	}),
	figures: []query{
		{"redis-sweep-p99-ratio", figure.AtMost(3), growth(ours, suite.P99)},
		// The median of the longest: a machine may once stop a server in the middle of a command.
		{"redis-sweep-longest-ms", figure.AtMost(5), median(suite.WhileSwept, ours, suite.Longest)},
	},
}

// The buckets of a namespace that is moved: as many as redisstore makes by default, and one, where
// all locks are in one slot.
const defaultBuckets, oneBucket = "default buckets, ", "one bucket, "

// redisMove is for how long a master of a cluster does not answer while locks are moved.
var redisMove = question{
	part: "names", metrics: []string{suite.Silent, suite.P99, suite.P50, suite.Slowest, suite.Seconds, suite.Failures},
	measure: lasting(1, 3*time.Second, func(ctx context.Context, e *suite.Env) (all suite.Cells, err error) {
		for buckets, kase := range []string{defaultBuckets, oneBucket} {
			cells, err := e.MoveSlots(ctx, e.Scaled(1_000_000), buckets)
			if err != nil {
				return nil, err
			}
			for _, c := range cells {
				c.Case = kase + c.Case
			}
			all = append(all, cells...)
		}
		return all, nil
	}),
	figures: []query{
		{"redis-move-block-ms", figure.AtMost(50), median(defaultBuckets+suite.WhileMoving, candidate.FencelockGoRedis, suite.Silent)},
		{"redis-move-block-ms-1-bucket", figure.AtMost(50), median(oneBucket+suite.WhileMoving, candidate.FencelockGoRedis, suite.Silent)},
	},
}

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
var redisFleet = question{
	part: "fleet", metrics: fleetMetrics,
	measure: func(ctx context.Context, e *suite.Env) (suite.Cells, error) {
		return e.Fleet(ctx, append([]*candidate.Candidate{candidate.BareRueidis, ours}, fleetPeers...), fleetClients, 0)
	},
	figures: []query{
		{"redis-fleet-cpu-vs-bare", figure.AtMost(1.13), ratio("", ours, candidate.BareRueidis, suite.ServerCPU)},
		{"redis-fleet-pairs-vs-best-peer", figure.AtLeast(1), vsBest("", suite.ServerCPU, fleetPeers)},
	},
}

// redisFleetPaused is the same with clients that do something else most of the time, long enough for 20 pairs of
// each.
var redisFleetPaused = question{
	part: "fleet", metrics: fleetMetrics,
	measure: func(ctx context.Context, e *suite.Env) (suite.Cells, error) {
		return e.AtLeast(20*fleetPause).Fleet(ctx, []*candidate.Candidate{candidate.BareRueidis, ours}, fleetClients, fleetPause)
	},
	figures: []query{{"redis-fleet-cpu-vs-bare-paused", figure.AtMost(1.25), ratio("", ours, candidate.BareRueidis, suite.ServerCPU)}},
}
