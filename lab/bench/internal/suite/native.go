// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"slices"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
)

// The suites of servers with a native lock or a usual recipe: ours beside it, each on the
// same server. On etcd and memcached there is also the least that any lock does.
var (
	Etcd = native("etcd", target.StartEtcd, "etcd writes to disk before it answers.",
		field{ours: candidate.FencelockEtcd, recipe: candidate.EtcdRecipe, bare: candidate.BareEtcd, apart: true})
	ZooKeeper = native("zk", target.StartZooKeeper, "Three servers agree and write to disk before they answer.",
		field{ours: candidate.FencelockZK, recipe: candidate.ZKLock, java: candidate.Curator})
	Postgres = native("postgres", target.StartPostgres, "Ours is durable and has a token, for which the server commits twice; the advisory lock is in memory and hangs on a connection.",
		field{ours: candidate.FencelockPostgres, recipe: candidate.AdvisoryLock})
	MariaDB = native("mariadb", target.StartMariaDB, "Ours is durable and has a token, for which the server commits twice; GET_LOCK is in memory and hangs on a connection.",
		field{ours: candidate.FencelockMariaDB, recipe: candidate.GetLock})
	Memcached = native("memcached", target.StartMemcached, "memcached may evict data and has no queue: ours reads before it writes and releases only its own lock, the recipe deletes any key.",
		field{ours: candidate.FencelockMemcached, recipe: candidate.MemcachedRecipe, bare: candidate.BareMemcached})
)

// field is the candidates that run on one server.
type field struct {
	ours, recipe *candidate.Candidate
	// bare is what any lock at least does, nil where nothing is less than the recipe.
	bare *candidate.Candidate
	// java runs only in separate processes; nil if no Java candidate is measured.
	java *candidate.Candidate
	// apart means that the recipe excludes sessions and not the goroutines that share
	// a session: etcd's admits all of them at once. Inside a process there is then
	// nothing to compare with.
	apart bool
}

// here are those that run in the runner's process.
func (f field) here() []*candidate.Candidate { return present(f.bare, f.ours, f.recipe) }

// crowd are those that wait for each other in separate processes.
func (f field) crowd() []*candidate.Candidate { return present(f.ours, f.recipe, f.java) }

// reference is what rates without contention are divided by.
func (f field) reference() string { return present(f.bare, f.recipe)[0].Name }

func present(candidates ...*candidate.Candidate) []*candidate.Candidate {
	return slices.DeleteFunc(candidates, func(c *candidate.Candidate) bool { return c == nil })
}

// native makes the suite of one server. note is what the reader should know of it.
func native(name string, start func(context.Context) (target.Server, error), note string, f field) *Suite {
	parts := []*Part{f.uncontended(note), f.local(), f.processes(), f.waiters()}
	if f.apart {
		parts = slices.Delete(parts, 1, 2)
	}
	return &Suite{Name: name, Start: start, Parts: parts}
}

func (f field) uncontended(note string) *Part {
	return &Part{
		Name: "uncontended", Title: "Uncontended lock",
		Text:    "Each goroutine of one process locks and unlocks its own name. The ratio is the rate divided by that of " + f.reference() + ". " + note,
		Metrics: []string{Rate, P50, P99, CPU, Allocs},
		Ratio:   Rate, Bare: f.reference(), Chart: Chart{Metric: Rate, X: "goroutines"},
		Run: func(ctx context.Context, e *Env) (Cells, error) {
			return e.Uncontended(ctx, f.here(), []int{1, 16, 64})
		},
	}
}

func (f field) local() *Part {
	return &Part{
		Name: "local", Title: "Contended lock, one process",
		Text:    "Threads where the candidate is Java. The ratio is the rate divided by that of " + f.recipe.Name + ". Jain is 1 if all had the same share.",
		Metrics: []string{Rate, P50, P99, Jain, CPU, Allocs},
		Ratio:   Rate, Bare: f.recipe.Name, Chart: Chart{Metric: Rate, Bars: true},
		Run: func(ctx context.Context, e *Env) (Cells, error) { return e.crowds(ctx, f.crowd(), 1, []int{16}) },
	}
}

func (f field) processes() *Part {
	return &Part{
		Name: "processes", Title: "Contended lock, several processes",
		Text: "One goroutine in each. Handoff is the time from one process's call of Unlock to another's return from Lock; the ratio is the rate divided by " +
			"that of " + f.recipe.Name + ".",
		Metrics: []string{Handoff50, Handoff99, Rate, Cross, Jain, Overlaps, CPU},
		Ratio:   Rate, Bare: f.recipe.Name, Chart: Chart{Metric: Rate, Bars: true},
		Run: func(ctx context.Context, e *Env) (Cells, error) {
			return collect([]int{2, 8}, func(n int) (Cells, error) { return e.crowds(ctx, f.crowd(), n, []int{1}) })
		},
	}
}

func (f field) waiters() *Part {
	return &Part{
		Name: "waiters", Title: "Growing number of waiters",
		Text:    "Each waiter has its own client and session, as a process has; all are in one process. The ratio is the rate divided by that of " + f.recipe.Name + ".",
		Metrics: []string{Rate, Handoff50, Handoff99, Jain, Overlaps, CPU},
		Ratio:   Rate, Bare: f.recipe.Name, Chart: Chart{Metric: Rate, X: "waiters"},
		Run: func(ctx context.Context, e *Env) (Cells, error) {
			both := present(f.ours, f.recipe)
			return collect([]int{1, 16, 64}, func(n int) (Cells, error) { return e.GrowWaiters(ctx, both, []int{n}) })
		},
	}
}

// Quorum is the suite of five Redis servers of which a majority decides.
var Quorum = &Suite{Name: "quorum", Start: target.StartFive, Parts: []*Part{quorumUncontended, quorumFaults}}

var quorumCandidates = []*candidate.Candidate{
	candidate.BareQuorum, candidate.FencelockQuorum, candidate.RedsyncQuorum, candidate.RedsyncFailFast,
}

var quorumUncontended = &Part{
	Name: "uncontended", Title: "Uncontended lock, on five servers",
	Text: "Each goroutine of one process locks and unlocks its own name. The ratio is the rate divided by that of SET NX PX and compare-and-delete on all " +
		"five at once, done when three have answered. Commands and server µs are the sum of four of the five.",
	Metrics: []string{Rate, P50, P99, Commands, Usec, CPU, Allocs},
	Ratio:   Rate, Chart: Chart{Metric: Rate, X: "goroutines"},
	Run: func(ctx context.Context, e *Env) (Cells, error) {
		return e.Uncontended(ctx, quorumCandidates, []int{1, 16, 64})
	},
}

var quorumFaults = &Part{
	Name: "faults", Title: "One of five servers stalled, or dead",
	Text:    "Sixteen goroutines of one process, each with its own name. The measurement begins four seconds after the fault. An operation that fails is counted and tried again.",
	Metrics: []string{P99, P50, Rate, Failures, Commands, CPU},
	Chart:   Chart{Metric: P99, Bars: true},
	Run: func(ctx context.Context, e *Env) (Cells, error) {
		return e.Faulty(ctx, quorumCandidates, []Fault{
			{"all well", func(target.Server) (func(), error) { return nil, nil }},
			{"one stalled", func(s target.Server) (func(), error) { return s.(*target.Redises).Stall(), nil }},
			{"one dead", func(s target.Server) (func(), error) { s.(*target.Redises).Kill(); return nil, nil }},
		})
	},
}
