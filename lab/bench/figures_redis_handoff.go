// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

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
