// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/measure"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// crowdGoals are how much of the native lock's rate so many sessions shall reach.
var crowdGoals = []struct {
	sessions int
	goal     float64
}{{16, 0.9}, {64, 0.7}}

// few and many are the sessions whose costs for the server are compared.
const few, many = 4, 64

// besideNative is the name of the figure of so many sessions.
func (d database) besideNative(sessions int) string {
	return fmt.Sprintf("%s-contended-vs-%s-%d", d.short, d.native, sessions)
}

// besideDurableName is the same beside the native lock with a commit of each holder.
func (d database) besideDurableName(sessions int) string {
	return fmt.Sprintf("%s-contended-vs-%s-and-commit-%d", d.short, d.native, sessions)
}

// crowd is with sessions that hold the lock for 1 ms, each with its own connections, as
// processes have: every handoff is between two of them. The statements of a handoff are added
// to those of other databases.
func (d database) crowd(handoffs *[]float64) question {
	metrics := []string{suite.Rate, suite.Handoff50, suite.ServerCPU, suite.Commands, suite.CPU, suite.Jain, suite.Overlaps}
	gives := []string{d.short + "-server-cpu-per-handoff-growth", d.short + "-statements-handoff"}
	for _, g := range crowdGoals {
		gives = append(gives, d.besideNative(g.sessions), d.besideDurableName(g.sessions))
	}
	return question{part: "processes", gives: gives, feeds: statementsHandoff, metrics: metrics, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
		sizes := []int{few}
		for _, g := range crowdGoals {
			sizes = append(sizes, g.sessions)
		}
		cells, err := e.Lasting(3, 3*time.Second).SessionCrowd(ctx, []*candidate.Candidate{d.lock, d.durable, d.ours}, sizes, time.Millisecond)
		if err != nil {
			return nil, nil, err
		}
		var figures []figure.Figure
		statements := 0.0
		for _, n := range sizes {
			cell := cells.Of(suite.Contending(n), d.ours.Name)
			if err := excluded(cell); err != nil {
				return nil, nil, err
			}
			statements = max(statements, cell.Median(suite.Commands))
		}
		for _, g := range crowdGoals {
			figures = append(figures, figure.Figure{
				Name:  d.besideNative(g.sessions),
				Value: cells.Ratio(suite.Contending(g.sessions), d.ours.Name, d.lock.Name, suite.Rate), Goal: figure.AtLeast(g.goal),
			}, figure.Figure{
				Name:  d.besideDurableName(g.sessions),
				Value: cells.Ratio(suite.Contending(g.sessions), d.ours.Name, d.durable.Name, suite.Rate), Goal: figure.AtLeast(d.besideDurable),
			})
		}
		*handoffs = append(*handoffs, statements)
		cpu := func(n int) float64 { return cells.Of(suite.Contending(n), d.ours.Name).Median(suite.ServerCPU) }
		return append(figures,
			figure.Figure{Name: d.short + "-server-cpu-per-handoff-growth", Value: cpu(many) / cpu(few), Goal: figure.AtMost(1.5)},
			figure.Figure{Name: d.short + "-statements-handoff", Value: statements, Goal: figure.AtMost(mostStatements)},
		), cells, nil
	}}
}

// mostStatements is the goal for the statements of a handoff, on whatever database.
const mostStatements = 4

// statementsHandoff is the figure of the database that needs the most of them.
const statementsHandoff = "sql-statements-handoff"

// worstHandoff is of the databases whose crowds were measured. -only that selects it selects them.
func worstHandoff(handoffs *[]float64) question {
	return question{part: "processes", gives: []string{statementsHandoff}, ask: func(context.Context, *suite.Env) ([]figure.Figure, suite.Cells, error) {
		worst, err := most(*handoffs)
		return []figure.Figure{{Name: statementsHandoff, Value: worst, Goal: figure.AtMost(mostStatements)}}, nil, err
	}}
}

// sqlIdle counts the statements of sessions that wait for a lock which stays held, without
// the keep-alives of the sessions.
var sqlIdle = question{part: "idle", gives: []string{"sql-idle-statements-per-second"}, ask: func(ctx context.Context, _ *suite.Env) ([]figure.Figure, suite.Cells, error) {
	what := fmt.Sprintf("statements a second of %d sessions that wait, without keep-alives", many)
	most, err := mostOf(what, func(d database) (float64, error) { return d.idle(ctx) })
	return []figure.Figure{{Name: "sql-idle-statements-per-second", Value: most, Goal: figure.AtMost(2)}}, nil, err
}}

const (
	// idleAfter is how long the waiters have to queue, idleFor how long they are watched: three TTLs,
	// which is as long as their longest wait. Each checks once or twice in two TTLs whether the holder is alive.
	idleAfter = 5 * time.Second
	idleFor   = 45 * time.Second
)

func (d database) idle(ctx context.Context) (perSecond float64, err error) {
	server, err := d.startCounting(ctx)
	if err != nil {
		return 0, err
	}
	defer server.Stop()
	var counters []*measure.Counter
	var clients []*fencelock.Client
	for range many + 1 {
		store, err := sqlstore.FromURL(server.Addr(), nil)
		if err != nil {
			return 0, err
		}
		defer store.Close()
		if err := store.Migrate(ctx); err != nil {
			return 0, err
		}
		counter := measure.NewCounter(store)
		client, err := fencelock.New(counter, nil)
		if err != nil {
			return 0, err
		}
		counters, clients = append(counters, counter), append(clients, client)
	}
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	defer func() {
		cancel()
		waiting.Wait()
		for _, c := range clients {
			_ = c.Close(context.WithoutCancel(ctx))
		}
	}()
	if _, err := clients[0].Mutex("idle").Lock(ctx); err != nil {
		return 0, err
	}
	for _, c := range clients[1:] {
		waiting.Go(func() { _, _ = c.Mutex("idle").Lock(ctx) })
	}
	read := func() (n float64, err error) {
		n, err = server.(*target.Database).Statements(ctx)
		for _, c := range counters {
			n -= float64(c.Renewals())
		}
		return n, err
	}
	time.Sleep(idleAfter)
	before, err := read()
	if err != nil {
		return 0, err
	}
	time.Sleep(idleFor)
	after, err := read()
	return (after - before) / idleFor.Seconds(), err
}
