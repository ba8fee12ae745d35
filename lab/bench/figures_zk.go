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

// zkFigures measures what is promised of zkstore, beside the recipe of its client
// library, on an ensemble of three.
func zkFigures(ctx context.Context, e *suite.Env, only selection) error {
	return askSelected(ctx, e, only, []on{{target.StartZooKeeper, zkQuestions}})
}

var zkQuestions = []question{zkUncontended, zkContended, zkHeartbeats}

// zkUncontended is with one goroutine: with more, both measure the ensemble.
var zkUncontended = question{part: "uncontended", gives: []string{"zk-uncontended-vs-native", "zk-uncontended-vs-native-16"}, metrics: nativeMetrics, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	ours, native := candidate.FencelockZK, candidate.ZKLock
	cells, err := e.Lasting(5, 700*time.Millisecond).Uncontended(ctx, []*candidate.Candidate{native, ours}, []int{1, 16})
	if err != nil {
		return nil, nil, err
	}
	return []figure.Figure{
		{Name: "zk-uncontended-vs-native", Value: cells.Ratio(suite.Goroutines(1), ours.Name, native.Name, suite.Rate), Goal: figure.AtLeast(1)},
		{Name: "zk-uncontended-vs-native-16", Value: cells.Ratio(suite.Goroutines(16), ours.Name, native.Name, suite.Rate)},
	}, cells, nil
}}

// zkContended is a crowd as services have it: some processes, some goroutines in each.
var zkContended = question{part: "processes", gives: []string{"zk-contended-vs-native-alone", "zk-contended-vs-native"}, metrics: nativeMetrics, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	var all suite.Cells
	var figures []figure.Figure
	for _, c := range []struct {
		name       string
		goroutines int
	}{{"zk-contended-vs-native-alone", 1}, {"zk-contended-vs-native", 8}} {
		ratio, cells, err := besideNative(ctx, e, suite.Crowd{Candidate: candidate.FencelockZK, Processes: 4, Goroutines: c.goroutines}, candidate.ZKLock)
		if err != nil {
			return nil, nil, err
		}
		figures, all = append(figures, figure.Figure{Name: c.name, Value: ratio, Goal: figure.AtLeast(1)}), append(all, cells...)
	}
	return figures, all, nil
}}

// zkHeartbeats counts at the servers what one process sends while it holds a thousand
// leases: requests for each time that the core renews.
var zkHeartbeats = question{part: "holding", gives: []string{"zk-heartbeats-1000-leases"}, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	server, err := e.Start(ctx) // one without other clients
	if err != nil {
		return nil, nil, err
	}
	defer server.Stop()
	store, err := zkstore.New(strings.Split(server.Addr(), ","), nil)
	if err != nil {
		return nil, nil, err
	}
	defer store.Close()
	received := server.(*target.ZooKeeper).Received
	per, err := perKeepAlive(ctx, store, 9*time.Second, func(context.Context) (float64, error) { return float64(received()), nil })
	return []figure.Figure{{Name: "zk-heartbeats-1000-leases", Value: per, Goal: figure.AtMost(1)}}, nil, err
}}
