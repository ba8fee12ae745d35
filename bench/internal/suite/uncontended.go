// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencelock/fencelock/bench/internal/candidate"
	"github.com/fencelock/fencelock/bench/internal/engine"
	"github.com/fencelock/fencelock/bench/internal/stat"
	"github.com/fencelock/fencelock/bench/internal/worker"
)

// Goroutines is the case of so many goroutines.
func Goroutines(n int) string { return fmt.Sprintf("%d goroutines", n) }

// Uncontended lets goroutines of one process lock and unlock, each a name of its
// own: what a lock costs that nobody else wants.
func (e *Env) Uncontended(ctx context.Context, candidates []*candidate.Candidate, levels []int) (Cells, error) {
	lockers := make([]candidate.Locker, len(candidates))
	for i, c := range candidates {
		l, err := c.One(ctx, e.Redis.Addr)
		if err != nil {
			return nil, err
		}
		defer l.Close()
		lockers[i] = l
	}
	var all Cells
	for _, n := range levels {
		var runs []run
		for i, c := range candidates {
			runs = append(runs, run{Goroutines(n), c.Name, func(ctx context.Context, _ int) (Sample, error) {
				return e.uncontended(ctx, c, lockers[i], n)
			}})
		}
		cells, err := e.interleave(ctx, runs)
		if err != nil {
			return nil, err
		}
		all = append(all, cells...)
	}
	return all, nil
}

func (e *Env) uncontended(ctx context.Context, c *candidate.Candidate, l candidate.Locker, n int) (Sample, error) {
	var r *worker.Result
	stats, err := e.counted(ctx, func() error {
		r = worker.Run(ctx, []candidate.Locker{l}, worker.Task{Name: "own", Own: true, Goroutines: n, For: e.For}, 0)
		return failure(r)
	})
	if err != nil {
		return nil, err
	}
	return perOp(r, stats.Sent(c.Plain)), nil
}

// perOp is what every measurement reports of its operations.
func perOp(r *worker.Result, sent engine.Count) Sample {
	ops := float64(r.Ops)
	return Sample{
		Rate: r.Rate(), P50: stat.Quantile(r.Latencies, 0.5), P99: stat.Quantile(r.Latencies, 0.99),
		Commands: float64(sent.Calls) / ops, Usec: sent.Usec / ops,
		CPU: float64(r.Cost.CPU.Microseconds()) / ops, Allocs: float64(r.Cost.Mallocs) / ops,
	}
}

// failure is the error of a task.
func failure(r *worker.Result) error {
	if r.Failed > 0 {
		return fmt.Errorf("%d goroutines failed, the first with: %s", r.Failed, r.Err)
	}
	if r.Ops == 0 {
		return errors.New("nothing was done")
	}
	return nil
}
