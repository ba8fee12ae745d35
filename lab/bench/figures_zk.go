// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
	"github.com/fencelock/fencelock/store/zkstore"
)

// zk is what is promised of zkstore, beside the recipe of its client library, on an ensemble of three.
func zk() []on {
	return []on{{target.StartZooKeeper, []question{zkUncontended, zkContended, zkHeartbeats}}}
}

// zkUncontended is with one goroutine: with more, both measure the ensemble.
var zkUncontended = question{
	part: "uncontended", metrics: nativeMetrics,
	measure: lasting(5, 700*time.Millisecond, uncontended([]int{1, 16}, candidate.ZKLock, candidate.FencelockZK)),
	figures: []query{
		{"zk-uncontended-vs-native", figure.AtLeast(1), ratio(suite.Goroutines(1), candidate.FencelockZK, candidate.ZKLock, suite.Rate)},
		{"zk-uncontended-vs-native-16", figure.Bound{}, ratio(suite.Goroutines(16), candidate.FencelockZK, candidate.ZKLock, suite.Rate)},
	},
}

// zkCrowds are as services have them: some processes, and one or some goroutines in each.
var zkCrowds = []suite.Crowd{{Candidate: candidate.FencelockZK, Processes: 4, Goroutines: 1}, {Candidate: candidate.FencelockZK, Processes: 4, Goroutines: 8}}

var zkContended = question{
	part: "processes", metrics: nativeMetrics, measure: besideNative(candidate.ZKLock, zkCrowds...),
	figures: []query{
		{"zk-contended-vs-native-alone", figure.AtLeast(1), ratio(zkCrowds[0].Case(), candidate.FencelockZK, candidate.ZKLock, suite.Rate)},
		{"zk-contended-vs-native", figure.AtLeast(1), ratio(zkCrowds[1].Case(), candidate.FencelockZK, candidate.ZKLock, suite.Rate)},
	},
}

// zkHeartbeats counts at the servers what one process sends while it holds a thousand
// leases: requests for each time that the core renews.
var zkHeartbeats = question{part: "holding", figures: []query{{name: "zk-heartbeats-1000-leases", goal: figure.AtMost(1)}}, count: func(ctx context.Context, e *suite.Env) ([]float64, error) {
	server, err := e.Start(ctx) // one without other clients
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	store, err := zkstore.New(strings.Split(server.Addr(), ","), nil)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	received := server.(*target.ZooKeeper).Received
	per, err := perKeepAlive(ctx, store, 9*time.Second, func(context.Context) (float64, error) { return float64(received()), nil })
	return []float64{per}, err
}}
