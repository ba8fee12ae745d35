// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// database is a server with a native lock.
type database struct {
	// short is how the names of its figures begin, native how they call its lock.
	short, native string
	// durable is the native lock with a commit of each holder.
	ours, lock, durable, commits *candidate.Candidate
	start, startCounting         func(context.Context) (target.Server, error)
	// besideCommits and besideDurable are the goals of the rate beside two bare commits, and beside the
	// native lock with a commit of each holder.
	besideCommits, besideDurable float64
}

var databases = []database{
	{short: "pg", native: "advisory", ours: candidate.FencelockPostgres, lock: candidate.AdvisoryLock, durable: candidate.AdvisoryLockCommit, commits: candidate.PostgresCommits,
		start: target.StartPostgres, startCounting: target.StartPostgresCounting, besideCommits: 0.8, besideDurable: 0.85},
	{short: "mariadb", native: "getlock", ours: candidate.FencelockMariaDB, lock: candidate.GetLock, durable: candidate.GetLockCommit, commits: candidate.MariaDBCommits,
		start: target.StartMariaDB, startCounting: target.StartMariaDBCounting, besideCommits: 0.6, besideDurable: 0.75},
	{short: "mysql", native: "getlock", ours: candidate.FencelockMySQL, lock: candidate.GetLockMySQL, durable: candidate.GetLockMySQLCommit, commits: candidate.MySQLCommits,
		start: target.StartMySQL, startCounting: target.StartMySQLCounting, besideCommits: 0.6, besideDurable: 0.75},
}

// sqlAll is what is promised of sqlstore, beside the locks that the databases have themselves.
func sqlAll() []on { return slices.Concat(sqlAlone(), sqlCrowd()) }

func sqlAlone() (all []on) {
	for _, d := range databases {
		all = append(all, on{d.start, []question{d.contended(), d.uncontended()}})
	}
	return append(all, on{nil, []question{sqlKeepAlives}})
}

// sqlCrowd is a crowd of sessions that want one lock.
func sqlCrowd() (all []on) {
	var statements []float64
	for _, d := range databases {
		all = append(all, on{d.startCounting, []question{d.crowd(&statements)}})
	}
	return append(all, on{nil, []question{worstHandoff(&statements), sqlIdle}})
}

// mostOf returns the most of what is measured on each database whose server is installed,
// ErrMissing if none is: 0 would meet every goal.
func mostOf(what string, measure func(database) (float64, error)) (float64, error) {
	var measured []float64
	for _, d := range databases {
		n, err := measure(d)
		if errors.Is(err, servers.ErrMissing) {
			fmt.Printf("%s: not measured: %v\n", d.short, err)
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", d.short, err)
		}
		fmt.Printf("%s: %.3g %s\n", d.short, n, what)
		measured = append(measured, n)
	}
	return highest(measured)
}

func highest(measured []float64) (float64, error) {
	if len(measured) == 0 {
		return 0, fmt.Errorf("every database is %w", servers.ErrMissing)
	}
	return slices.Max(measured), nil
}

// contended is with 16 workers that hold the lock for 1 ms: in 4 processes, and in 1, which
// is how many applications use it.
func (d database) contended() question {
	crowd := func(processes int) suite.Crowd {
		return suite.Crowd{Candidate: d.ours, Processes: processes, Goroutines: 16 / processes, Section: time.Millisecond}
	}
	name := fmt.Sprintf("%s-contended-vs-%s", d.short, d.native)
	return question{
		part: "processes", metrics: nativeMetrics, measure: besideNative(d.lock, crowd(4), crowd(1)),
		figures: []query{
			{name, figure.AtLeast(0.9), ratio(crowd(4).Case(), d.ours, d.lock, suite.Rate)},
			{name + "-1", figure.AtLeast(0.9), ratio(crowd(1).Case(), d.ours, d.lock, suite.Rate)},
		},
	}
}

// uncontended is with one goroutine, beside the native lock, which commits nothing, and
// beside two bare commits of one row, which is what a durable token and a durable unlock cost at the least.
// On PostgreSQL the unlock does not wait for the disk.
func (d database) uncontended() question {
	return question{
		part: "uncontended", metrics: nativeMetrics, measure: lasting(3, 700*time.Millisecond, uncontended([]int{1}, d.lock, d.commits, d.ours)),
		figures: []query{
			{fmt.Sprintf("%s-uncontended-vs-%s", d.short, d.native), figure.Bound{}, ratio("", d.ours, d.lock, suite.Rate)},
			{d.short + "-uncontended-vs-two-commits", figure.AtLeast(d.besideCommits), ratio("", d.ours, d.commits, suite.Rate)},
		},
	}
}

// sqlKeepAlives counts at the servers, which count nothing else then.
var sqlKeepAlives = question{part: "holding", figures: []query{{name: "sql-keepalive-statements", goal: figure.Exactly(1)}}, count: func(ctx context.Context, _ *suite.Env) ([]float64, error) {
	most, err := mostOf("statements for each keep-alive of 1000 leases", func(d database) (float64, error) { return d.perKeepAlive(ctx) })
	return []float64{most}, err
}}

func (d database) perKeepAlive(ctx context.Context) (float64, error) {
	server, err := d.startCounting(ctx)
	if err != nil {
		return 0, err
	}
	defer server.Stop()
	store, err := sqlstore.FromURL(server.Addr(), nil)
	if err != nil {
		return 0, err
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		return 0, err
	}
	return perKeepAlive(ctx, store, 3*time.Second, server.(*target.Database).Statements)
}
