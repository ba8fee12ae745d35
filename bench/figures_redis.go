// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/bench/internal/candidate"
	"github.com/fencelock/fencelock/bench/internal/engine"
	"github.com/fencelock/fencelock/bench/internal/stat"
	"github.com/fencelock/fencelock/bench/internal/suite"
)

// figuresRedis measures what is promised of redisstore, in under a minute. It
// prints a table of what is behind the figures, and the figures.
func figuresRedis(ctx context.Context, e *suite.Env) error {
	// The holder sits on a server of its own and is silent most of the time:
	// others are measured meanwhile.
	holding, err := suite.Hold(ctx, candidate.FencelockRueidis, heldLeases)
	if err != nil {
		return err
	}
	defer holding.Stop()
	if e.Redis, err = engine.StartRedis(ctx); err != nil {
		return err
	}
	defer e.Redis.Stop()
	for _, part := range []func(context.Context, *suite.Env) ([]figure, error){
		uncontendedFigures, growthFigures, idleFigures, handoverFigures,
	} {
		figures, err := part(ctx, e)
		if err != nil {
			return err
		}
		show(figures)
	}
	return holdingFigures(ctx, holding)
}

func show(figures []figure) {
	for _, f := range figures {
		fmt.Println(f)
	}
}

const (
	heldLeases  = 100_000
	idleWaiters = 30
)

// uncontendedGoals are by goroutines.
var uncontendedGoals = []struct {
	goroutines int
	goal       string
}{{1, ">=0.8"}, {16, ">=0.9"}, {64, ">=1.5"}, {256, ">=1.5"}}

func uncontendedFigures(ctx context.Context, e *suite.Env) ([]figure, error) {
	var levels []int
	for _, g := range uncontendedGoals {
		levels = append(levels, g.goroutines)
	}
	e.Repetitions, e.For = 5, 250*time.Millisecond
	bare, ours := candidate.BareRueidis, candidate.FencelockRueidis
	cells, err := e.Uncontended(ctx, []*candidate.Candidate{bare, ours}, levels)
	if err != nil {
		return nil, err
	}
	e.Repetitions, e.For = 3, 200*time.Millisecond
	goBare, goOurs := candidate.BareGoRedis, candidate.FencelockGoRedis
	goCells, err := e.Uncontended(ctx, []*candidate.Candidate{goBare, goOurs}, levels)
	if err != nil {
		return nil, err
	}
	alone := cells.Of(suite.Goroutines(1), ours.Name)
	figures := []figure{
		{"redis-roundtrips-uncontended", alone.Median(suite.Commands), "<=2"},
		{"redis-server-usec-vs-bare", ratio(cells, suite.Goroutines(1), ours, bare, suite.Usec), "-"},
	}
	for _, g := range uncontendedGoals {
		name := fmt.Sprintf("redis-uncontended-vs-bare-%d", g.goroutines)
		figures = append(figures, figure{name, ratio(cells, suite.Goroutines(g.goroutines), ours, bare, suite.Rate), g.goal})
	}
	for _, n := range levels {
		name := fmt.Sprintf("redis-uncontended-vs-bare-goredis-%d", n)
		figures = append(figures, figure{name, ratio(goCells, suite.Goroutines(n), goOurs, goBare, suite.Rate), "-"})
	}
	table(append(cells, goCells...), suite.Rate, suite.P50, suite.P99, suite.Commands, suite.Usec, suite.CPU, suite.Allocs)
	return figures, nil
}

// ratio is that of two candidates within the repetitions of a case.
func ratio(cells suite.Cells, kase string, a, b *candidate.Candidate, metric string) float64 {
	return stat.Ratio(cells.Of(kase, a.Name).Values(metric), cells.Of(kase, b.Name).Values(metric))
}

func growthFigures(ctx context.Context, e *suite.Env) ([]figure, error) {
	e.Repetitions, e.For = 3, 400*time.Millisecond
	sizes := []int{2, 16, 200}
	ours := candidate.FencelockRueidis
	cells, err := e.Growth(ctx, ours, sizes)
	if err != nil {
		return nil, err
	}
	worst := 0.0
	for _, n := range sizes {
		worst = max(worst, cells.Of(suite.Waiting(n), ours.Name).Median(suite.Commands))
	}
	growth := stat.Ratio(cells.Of(suite.Waiting(200), ours.Name).Values(suite.Usec), cells.Of(suite.Waiting(2), ours.Name).Values(suite.Usec))
	table(cells, suite.Rate, suite.Commands, suite.Usec, suite.Jain)
	return []figure{
		{"redis-commands-handover", worst, "<=3"},
		{"redis-handover-growth", growth, "<=1.2"},
	}, nil
}

func idleFigures(ctx context.Context, e *suite.Env) ([]figure, error) {
	commands, pings, err := e.Idle(ctx, candidate.FencelockRueidis, idleWaiters)
	if err != nil {
		return nil, err
	}
	fmt.Printf("%d wait for 2 s: %d commands, and %d pings of the client library\n", idleWaiters, commands, pings)
	return []figure{{"redis-idle-commands", float64(commands), "<=60"}}, nil
}

func handoverFigures(ctx context.Context, e *suite.Env) ([]figure, error) {
	e.Repetitions, e.For = 5, 400*time.Millisecond
	ours, peer, pingPong := candidate.FencelockRueidis, candidate.RueidislockFast, candidate.PingPong
	two, eight := suite.Crowd{Candidate: ours, Processes: 2}, suite.Crowd{Candidate: ours, Processes: 8}
	cells, err := e.Contended(ctx, []suite.Crowd{
		{Candidate: pingPong, Processes: 2}, two, eight, {Candidate: peer, Processes: 8},
	})
	if err != nil {
		return nil, err
	}
	bare := cells.Of(two.Case(), pingPong.Name).Values(suite.Handover50)
	worst, cross := 0.0, 1.0
	for _, crowd := range []suite.Crowd{two, eight} {
		cell := cells.Of(crowd.Case(), ours.Name)
		worst = max(worst, stat.Ratio(cell.Values(suite.Handover50), bare))
		cross = min(cross, cell.Median(suite.Cross))
	}
	table(cells, suite.Rate, suite.Handover50, suite.Handover99, suite.Cross, suite.Jain, suite.Overlaps, suite.Commands, suite.Usec)
	return []figure{
		{"redis-handover-vs-pingpong", worst, "<=2"},
		{"redis-handover-vs-rueidislock", ratio(cells, eight.Case(), ours, peer, suite.Handover50), "<=0.6"},
		{"redis-handover-cross-share", cross, ">=0.9"},
	}, nil
}

func holdingFigures(ctx context.Context, holding *suite.Holding) error {
	held, err := holding.Finish(ctx, 11*time.Second) // two keep-alives of a TTL of 15 s
	if err != nil {
		return err
	}
	fmt.Println(held)
	show([]figure{
		{"redis-keepalives-per-second", held.Commands, "<=1"},
		{"redis-bytes-per-lease", held.ServerBytes, "<=200"},
	})
	return nil
}
