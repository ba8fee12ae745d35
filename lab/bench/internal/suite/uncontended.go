// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/stat"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
	"github.com/fencelock/fencelock/lab/bench/internal/worker"
)

// Goroutines is the case of so many goroutines.
func Goroutines(n int) string { return fmt.Sprintf("%d goroutines", n) }

// Uncontended measures what an uncontended lock costs: each goroutine of one process
// locks and unlocks its own name. Nothing can end their contexts, which is the least
// work for a library, unless the environment is that of Requests.
func (e *Env) Uncontended(ctx context.Context, candidates []*candidate.Candidate, levels []int) (Cells, error) {
	lockers, closeLockers, err := e.openOne(ctx, candidates)
	if err != nil {
		return nil, err
	}
	defer closeLockers()
	return collect(levels, func(n int) (Cells, error) {
		var runs []run
		for i, c := range candidates {
			task := worker.Task{Name: fmt.Sprintf("own/%s/%d", c.Name, n), Own: true, Goroutines: n, Uncanceled: !e.requests, Requests: e.requests}
			runs = append(runs, run{Goroutines(n), c.Name, func(ctx context.Context, e *Env, _ int) (Sample, error) {
				return e.own(ctx, c, lockers[i], task)
			}})
		}
		return e.interleave(ctx, runs)
	})
}

// openOne opens a locker of each candidate, in this process.
func (e *Env) openOne(ctx context.Context, candidates []*candidate.Candidate) (lockers []candidate.Locker, closeLockers func(), err error) {
	for _, c := range candidates {
		l, err := c.One(ctx, e.Server.Addr())
		if err != nil {
			closeAll(lockers)
			return nil, nil, err
		}
		lockers = append(lockers, l)
	}
	return lockers, func() { closeAll(lockers) }, nil
}

// own does a task without contention.
func (e *Env) own(ctx context.Context, c *candidate.Candidate, l candidate.Locker, t worker.Task) (Sample, error) {
	t.For = e.For
	var r *worker.Result
	stats, err := e.counted(ctx, func() error {
		r = worker.Run(ctx, []candidate.Locker{l}, t, 0)
		if t.Tolerant && r.Ops > 0 {
			return nil
		}
		return failure(r)
	})
	if err != nil {
		return nil, err
	}
	s := perOp(r)
	if t.Tolerant {
		s[Failures] = 100 * float64(r.Failed) / float64(r.Ops+r.Failed)
	}
	s.count(stats, c, r.Ops)
	return s, nil
}

// perOp is what every measurement reports of its operations.
func perOp(r *worker.Result) Sample {
	ops := float64(r.Ops)
	s := Sample{
		Rate: r.Rate(), P50: stat.Quantile(r.Latencies, 0.5), P99: stat.Quantile(r.Latencies, 0.99),
		CPU: float64(r.Cost.CPU.Microseconds()) / ops,
	}
	if r.Cost.Mallocs > 0 { // Java does not count them
		s[Allocs] = float64(r.Cost.Mallocs) / ops
	}
	return s
}

// count adds what the server counted for so many operations.
func (s Sample) count(stats target.Stats, c *candidate.Candidate, ops int) {
	if stats == nil {
		return
	}
	sent := stats.Sent(c.Plain)
	s[Commands], s[Usec] = float64(sent.Calls)/float64(ops), sent.Usec/float64(ops)
}

// errNotAcquired: the time was too short, or the lock cannot be acquired at all.
var errNotAcquired = errors.New("no client acquired the lock in time")

// failure is the error of a task.
func failure(r *worker.Result) error {
	if r.Failed > 0 {
		return fmt.Errorf("%d failures, one of them: %s", r.Failed, r.Err)
	}
	if r.Ops == 0 {
		return errNotAcquired
	}
	return nil
}

// closeAll closes lockers at the same time: some take a round trip for it.
func closeAll(lockers []candidate.Locker) {
	done := make(chan struct{})
	for _, l := range lockers {
		go func() { l.Close(); done <- struct{}{} }()
	}
	for range lockers {
		<-done
	}
}
