// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"

	"github.com/fencelock/fencelock/bench/internal/candidate"
	"github.com/fencelock/fencelock/bench/internal/engine"
)

// The suites of engines with a lock of their own: ours beside it, each on the same
// server. On etcd there is also what any lock at least does.
var (
	Etcd = native("etcd", engine.StartEtcd, "etcd writes to disk before it answers.",
		candidate.FencelockEtcd, candidate.EtcdRecipe, candidate.BareEtcd)
	ZooKeeper = native("zk", engine.StartZooKeeper, "Three servers agree and write to disk before they answer.",
		candidate.FencelockZK, candidate.ZKLock)
	Postgres = native("postgres", engine.StartPostgres, "Ours is durable and has a token, for which the server commits twice; the advisory lock is in memory and hangs on a connection.",
		candidate.FencelockPostgres, candidate.AdvisoryLock)
	MariaDB = native("mariadb", engine.StartMariaDB, "Ours is durable and has a token, for which the server commits twice; GET_LOCK is in memory and hangs on a connection.",
		candidate.FencelockMariaDB, candidate.GetLock)
)

// native makes the suite of one engine. note is what the reader should know of it.
func native(name string, start func(context.Context) (engine.Server, error), note string, ours, recipe *candidate.Candidate, bare ...*candidate.Candidate) *Suite {
	both := []*candidate.Candidate{ours, recipe}
	all := append(bare, both...)
	return &Suite{Name: name, Start: start, Parts: []*Part{
		{
			Name: "uncontended", Title: "A lock that nobody else wants",
			Text:    "Goroutines of one process lock and unlock, each a name of its own. The ratio is that of the rates, to " + reference(recipe, bare) + ". " + note,
			Metrics: []string{Rate, P50, P99, CPU, Allocs},
			Ratio:   Rate, Bare: reference(recipe, bare), Chart: Chart{Metric: Rate, X: "goroutines"},
			Run: func(ctx context.Context, e *Env) (Cells, error) { return e.Uncontended(ctx, all, []int{1, 16, 64}) },
		},
		{
			Name: "processes", Title: "Processes that want one lock",
			Text: "One goroutine in each. Hand-over is the time from one process's call of Unlock to another's return from Lock; the ratio is that of the rates, " +
				"to " + recipe.Name + ".",
			Metrics: []string{Handover50, Handover99, Rate, Cross, Jain, Overlaps, CPU},
			Ratio:   Rate, Bare: recipe.Name, Chart: Chart{Metric: Rate, Bars: true},
			Run: func(ctx context.Context, e *Env) (Cells, error) {
				return collect([]int{2, 8}, func(n int) (Cells, error) { return e.crowds(ctx, both, n, []int{1}) })
			},
		},
		{
			Name: "waiters", Title: "More and more waiting for one lock",
			Text:    "Each waiter has a client and a session of its own, as a process has; all are in one process. The ratio is that of the rates, to " + recipe.Name + ".",
			Metrics: []string{Rate, Handover50, Handover99, Jain, Overlaps, CPU},
			Ratio:   Rate, Bare: recipe.Name, Chart: Chart{Metric: Rate, X: "waiting"},
			Run: func(ctx context.Context, e *Env) (Cells, error) {
				return collect([]int{1, 16, 64}, func(n int) (Cells, error) { return e.GrowWaiters(ctx, both, []int{n}) })
			},
		},
	}}
}

// reference is what rates without contention are divided by.
func reference(recipe *candidate.Candidate, bare []*candidate.Candidate) string {
	if len(bare) > 0 {
		return bare[0].Name
	}
	return recipe.Name
}

// collect measures one size after the other.
func collect(sizes []int, one func(n int) (Cells, error)) (Cells, error) {
	var all Cells
	for _, n := range sizes {
		cells, err := one(n)
		if err != nil {
			return nil, err
		}
		all = append(all, cells...)
	}
	return all, nil
}
