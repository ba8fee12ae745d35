// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"

	"github.com/fencelock/fencelock/bench/internal/candidate"
	"github.com/fencelock/fencelock/bench/internal/engine"
)

// Etcd is the suite of etcdstore and of the recipe that comes with etcd's client.
var Etcd = &Suite{Name: "etcd", Start: engine.StartEtcd, Parts: []*Part{etcdUncontended, etcdProcesses, etcdWaiters}}

var etcdUncontended = &Part{
	Name: "uncontended", Title: "A lock that nobody else wants",
	Text: "Goroutines of one process lock and unlock, each a name of its own. The ratio is that of the rates, to a transaction that writes a key and one that deletes it. " +
		"etcd writes to disk before it answers.",
	Metrics: []string{Rate, P50, P99, CPU, Allocs},
	Ratio:   Rate, Chart: Chart{Metric: Rate, X: "goroutines"},
	Run: func(ctx context.Context, e *Env) (Cells, error) {
		return e.Uncontended(ctx, []*candidate.Candidate{candidate.BareEtcd, candidate.FencelockEtcd, candidate.EtcdRecipe}, []int{1, 16, 64})
	},
}

var etcdWaiting = []*candidate.Candidate{candidate.FencelockEtcd, candidate.EtcdRecipe}

var etcdProcesses = &Part{
	Name: "processes", Title: "Processes that want one lock",
	Text: "One goroutine in each. Hand-over is the time from one process's call of Unlock to another's return from Lock; the ratio is that of the rates, " +
		"to the recipe that comes with etcd's client.",
	Metrics: []string{Handover50, Handover99, Rate, Cross, Jain, Overlaps, CPU},
	Ratio:   Rate, Bare: candidate.EtcdRecipe.Name, Chart: Chart{Metric: Rate, Bars: true},
	Run: func(ctx context.Context, e *Env) (Cells, error) {
		var all Cells
		for _, n := range []int{2, 8} {
			cells, err := e.crowds(ctx, etcdWaiting, n, []int{1})
			if err != nil {
				return nil, err
			}
			all = append(all, cells...)
		}
		return all, nil
	},
}

var etcdWaiters = &Part{
	Name: "waiters", Title: "More and more waiting for one lock",
	Text:    "Each waiter has a client and a session of its own, as a process has; all are in one process. The ratio is that of the rates, to the recipe that comes with etcd's client.",
	Metrics: []string{Rate, Handover50, Handover99, Jain, Overlaps, CPU},
	Ratio:   Rate, Bare: candidate.EtcdRecipe.Name, Chart: Chart{Metric: Rate, X: "waiting"},
	Run: func(ctx context.Context, e *Env) (Cells, error) {
		var all Cells
		for _, n := range []int{1, 16, 64} {
			cells, err := e.GrowWaiters(ctx, etcdWaiting, []int{n})
			if err != nil {
				return nil, err
			}
			all = append(all, cells...)
		}
		return all, nil
	},
}
