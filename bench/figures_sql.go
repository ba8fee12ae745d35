// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/bench/internal/candidate"
	"github.com/fencelock/fencelock/bench/internal/suite"
	"github.com/fencelock/fencelock/bench/internal/target"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// database is a server with a native lock.
type database struct {
	// short is how the names of its figures begin, native how they call its lock.
	short, native        string
	ours, lock, commits  *candidate.Candidate
	start, startCounting func(context.Context) (target.Server, error)
}

var databases = []database{
	{short: "pg", native: "advisory", ours: candidate.FencelockPostgres, lock: candidate.AdvisoryLock, commits: candidate.PostgresCommits,
		start: target.StartPostgres, startCounting: target.StartPostgresCounting},
	{short: "mariadb", native: "getlock", ours: candidate.FencelockMariaDB, lock: candidate.GetLock, commits: candidate.MariaDBCommits,
		start: target.StartMariaDB, startCounting: target.StartMariaDBCounting},
	{short: "mysql", native: "getlock", ours: candidate.FencelockMySQL, lock: candidate.GetLockMySQL, commits: candidate.MySQLCommits,
		start: target.StartMySQL, startCounting: target.StartMySQLCounting},
}

// sqlFigures measures what is promised of sqlstore, beside the locks that the databases
// have themselves.
func sqlFigures(ctx context.Context, e *suite.Env) error {
	installed, err := onDatabases(func(d database) error {
		return askOn(ctx, e, d.start, []question{d.contended(), d.uncontended()})
	})
	if err != nil {
		return err
	}
	if _, err := ask(ctx, e, []question{sqlKeepAlives(installed)}, nil); err != nil {
		return err
	}
	return sqlCrowdFigures(ctx, e)
}

// sqlCrowdFigures measures a crowd of sessions that want one lock.
func sqlCrowdFigures(ctx context.Context, e *suite.Env) error {
	installed, err := onDatabases(func(d database) error { return askOn(ctx, e, d.startCounting, []question{d.crowd()}) })
	if err != nil {
		return err
	}
	_, err = ask(ctx, e, []question{sqlIdle(installed)}, nil)
	return err
}

// onDatabases measures on each database whose server is installed, and returns those.
func onDatabases(measure func(database) error) (installed []database, err error) {
	for _, d := range databases {
		err := measure(d)
		if errors.Is(err, servers.ErrMissing) {
			fmt.Printf("%s: not measured: %v\n", d.short, err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.short, err)
		}
		installed = append(installed, d)
	}
	return installed, nil
}

// contended is with 16 workers that hold the lock for 1 ms: in 4 processes, and in 1, which
// is how many applications use it.
func (d database) contended() question {
	return question{part: "processes", metrics: nativeMetrics, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
		const workers = 16
		var figures []figure.Figure
		var all suite.Cells
		for _, processes := range []int{4, 1} {
			ratio, cells, err := besideNative(ctx, e, suite.Crowd{Candidate: d.ours, Processes: processes, Goroutines: workers / processes, Section: time.Millisecond}, d.lock)
			if err != nil {
				return nil, nil, err
			}
			name := fmt.Sprintf("%s-contended-vs-%s", d.short, d.native)
			if processes != 4 {
				name = fmt.Sprintf("%s-%d", name, processes)
			}
			figures, all = append(figures, figure.Figure{Name: name, Value: ratio, Goal: figure.AtLeast(0.9)}), append(all, cells...)
		}
		return figures, all, nil
	}}
}

// uncontended is with one goroutine, beside the native lock, which commits nothing, and
// beside two bare commits of one row, which is what a durable token costs at the least.
func (d database) uncontended() question {
	return question{part: "uncontended", metrics: nativeMetrics, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
		cells, err := e.Lasting(3, 700*time.Millisecond).Uncontended(ctx, []*candidate.Candidate{d.lock, d.commits, d.ours}, []int{1})
		if err != nil {
			return nil, nil, err
		}
		ratio := func(other *candidate.Candidate) float64 {
			return cells.Ratio(suite.Goroutines(1), d.ours.Name, other.Name, suite.Rate)
		}
		return []figure.Figure{
			{Name: fmt.Sprintf("%s-uncontended-vs-%s", d.short, d.native), Value: ratio(d.lock)},
			{Name: d.short + "-uncontended-vs-two-commits", Value: ratio(d.commits), Goal: figure.AtLeast(0.8)},
		}, cells, nil
	}}
}

// sqlKeepAlives counts at the servers, which count nothing else then.
func sqlKeepAlives(databases []database) question {
	return question{part: "holding", ask: func(ctx context.Context, _ *suite.Env) ([]figure.Figure, suite.Cells, error) {
		most := 0.0
		for _, d := range databases {
			per, err := d.perKeepAlive(ctx)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", d.short, err)
			}
			fmt.Printf("%s: %.3g statements for each keep-alive of 1000 leases\n", d.short, per)
			most = max(most, per)
		}
		return []figure.Figure{{Name: "sql-keepalive-statements", Value: most, Goal: figure.Exactly(1)}}, nil, nil
	}}
}

func (d database) perKeepAlive(ctx context.Context) (float64, error) {
	server, err := d.startCounting(ctx)
	if err != nil {
		return 0, err
	}
	defer server.Stop()
	store, err := sqlstore.Open(ctx, server.Addr(), nil)
	if err != nil {
		return 0, err
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		return 0, err
	}
	return perKeepAlive(ctx, store, 3*time.Second, server.(*target.Database).Statements)
}
