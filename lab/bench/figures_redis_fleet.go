// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

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
