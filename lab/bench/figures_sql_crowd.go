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

// crowd is with sessions that hold the lock for 1 ms, each with its own connections, as
// processes have: every handoff is between two of them. The statements of a handoff are added
// to those of other databases.
func (d database) crowd(handoffs *[]float64) question {
	sizes := []int{few}
	var figures []query
	for _, g := range crowdGoals {
		sizes = append(sizes, g.sessions)
		name := fmt.Sprintf("%s-contended-vs-%s", d.short, d.native)
		kase := suite.Contending(g.sessions)
		figures = append(figures,
			query{fmt.Sprintf("%s-%d", name, g.sessions), figure.AtLeast(g.goal), ratio(kase, d.ours, d.lock, suite.Rate)},
			query{fmt.Sprintf("%s-and-commit-%d", name, g.sessions), figure.AtLeast(d.besideDurable), ratio(kase, d.ours, d.durable, suite.Rate)})
	}
	statements := most(d.ours, suite.Commands)
	return question{
		part: "processes", feeds: statementsHandoff,
		metrics: []string{suite.Rate, suite.Handoff50, suite.ServerCPU, suite.Commands, suite.CPU, suite.Jain, suite.Overlaps},
		measure: lasting(3, 3*time.Second, func(ctx context.Context, e *suite.Env) (suite.Cells, error) {
			cells, err := e.SessionCrowd(ctx, []*candidate.Candidate{d.lock, d.durable, d.ours}, sizes, time.Millisecond)
			if err != nil {
				return nil, err
			}
			for _, n := range sizes {
				if err := excluded(cells.Of(suite.Contending(n), d.ours.Name)); err != nil {
					return nil, err
				}
			}
			*handoffs = append(*handoffs, statements(cells))
			return cells, nil
		}),
		figures: append(figures,
			query{d.short + "-server-cpu-per-handoff-growth", figure.AtMost(1.5), func(cells suite.Cells) float64 {
				return median(suite.Contending(many), d.ours, suite.ServerCPU)(cells) / median(suite.Contending(few), d.ours, suite.ServerCPU)(cells)
			}},
			query{d.short + "-statements-handoff", figure.AtMost(mostStatements), statements}),
	}
}

// mostStatements is the goal for the statements of a handoff, on whatever database.
const mostStatements = 4

// statementsHandoff is the figure of the database that needs the most of them.
const statementsHandoff = "sql-statements-handoff"

// worstHandoff is of the databases whose crowds were measured. -only that selects it selects them.
func worstHandoff(handoffs *[]float64) question {
	return question{part: "processes", figures: []query{{name: statementsHandoff, goal: figure.AtMost(mostStatements)}}, count: func(context.Context, *suite.Env) ([]float64, error) {
		worst, err := highest(*handoffs)
		return []float64{worst}, err
	}}
}

// sqlIdle counts the statements of sessions that wait for a lock which stays held, without
// the keep-alives of the sessions.
var sqlIdle = question{part: "idle", figures: []query{{name: "sql-idle-statements-per-second", goal: figure.AtMost(2)}}, count: func(ctx context.Context, _ *suite.Env) ([]float64, error) {
	what := fmt.Sprintf("statements a second of %d sessions that wait, without keep-alives", many)
	most, err := mostOf(what, func(d database) (float64, error) { return d.idle(ctx) })
	return []float64{most}, err
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
		//fencelock:ignore leaseleak it waits until the client is closed
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
