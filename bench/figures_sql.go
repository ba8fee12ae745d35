// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
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
	start                func(context.Context) (target.Server, error)
	startCounting        func() (*servers.Server, error)
	url, driver, source  string // with the address for %s
	statements           func(ctx context.Context, db *sql.DB) (float64, error)
	statementsCountReads bool // each call of statements counts as a statement
}

var postgres = database{
	short: "pg", native: "advisory", ours: candidate.FencelockPostgres, lock: candidate.AdvisoryLock, commits: candidate.PostgresCommits,
	start: target.StartPostgres,
	startCounting: func() (*servers.Server, error) {
		return servers.Postgres("shared_preload_libraries=pg_stat_statements", "max_connections=200")
	},
	url: "postgres://postgres@%s/postgres?sslmode=disable", driver: "pgx", source: "postgres://postgres@%s/postgres?sslmode=disable",
	statements: func(ctx context.Context, db *sql.DB) (n float64, err error) {
		_, err = db.ExecContext(ctx, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
		if err != nil {
			return 0, err
		}
		err = db.QueryRowContext(ctx, "SELECT COALESCE(sum(calls), 0) FROM pg_stat_statements WHERE query LIKE '/* fencelock%' OR query LIKE 'SELECT pg_notify%'").Scan(&n)
		return n, err
	},
}

var mariaDB = database{
	short: "mariadb", native: "getlock", ours: candidate.FencelockMariaDB, lock: candidate.GetLock, commits: candidate.MariaDBCommits,
	start:         target.StartMariaDB,
	startCounting: func() (*servers.Server, error) { return servers.MariaDB("max-connections=200") },
	url:           "mysql://root@%s/test", driver: "mysql", source: "root@tcp(%s)/test",
	statements: func(ctx context.Context, db *sql.DB) (n float64, err error) {
		var name string
		err = db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n)
		return n, err
	},
	statementsCountReads: true,
}

// sqlFigures measures what is promised of sqlstore, beside the locks that the databases
// have themselves.
func sqlFigures(ctx context.Context, e *suite.Env) error {
	for _, d := range []database{postgres, mariaDB} {
		if err := askOn(ctx, e, d.start, []question{d.contended(), d.uncontended()}); err != nil {
			return fmt.Errorf("%s: %w", d.short, err)
		}
	}
	_, err := ask(ctx, e, []question{sqlKeepAlives}, nil)
	return err
}

// contended is with 16 workers that hold the lock for 1 ms: in 4 processes, in 1, which is
// how many applications use it, and in 16, where every handoff is between processes.
func (d database) contended() question {
	return question{part: "processes", metrics: nativeMetrics, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
		const workers = 16
		var figures []figure.Figure
		var all suite.Cells
		for _, processes := range []int{4, 1, workers} {
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
			{Name: d.short + "-uncontended-vs-two-commits", Value: ratio(d.commits)},
		}, cells, nil
	}}
}

// sqlKeepAlives counts at the servers, which count nothing else then.
var sqlKeepAlives = question{part: "holding", ask: func(ctx context.Context, _ *suite.Env) ([]figure.Figure, suite.Cells, error) {
	most := 0.0
	for _, d := range []database{postgres, mariaDB} {
		per, err := d.perKeepAlive(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", d.short, err)
		}
		fmt.Printf("%s: %.3g statements for each keep-alive of 1000 leases\n", d.short, per)
		most = max(most, per)
	}
	return []figure.Figure{{Name: "sql-keepalive-statements", Value: most, Goal: figure.Exactly(1)}}, nil, nil
}}

func (d database) perKeepAlive(ctx context.Context) (float64, error) {
	server, err := d.startCounting()
	if err != nil {
		return 0, err
	}
	defer server.Stop()
	store, err := sqlstore.Open(ctx, fmt.Sprintf(d.url, server.Addr), nil)
	if err != nil {
		return 0, err
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		return 0, err
	}
	db, err := sql.Open(d.driver, fmt.Sprintf(d.source, server.Addr))
	if err != nil {
		return 0, err
	}
	defer db.Close()
	reads := 0.0
	return perKeepAlive(ctx, store, 3*time.Second, func(ctx context.Context) (float64, error) {
		n, err := d.statements(ctx, db)
		n -= reads
		if d.statementsCountReads {
			reads++
		}
		return n, err
	})
}
