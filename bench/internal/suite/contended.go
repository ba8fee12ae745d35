// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/bench/internal/candidate"
	"github.com/fencelock/fencelock/bench/internal/engine"
	"github.com/fencelock/fencelock/bench/internal/stat"
	"github.com/fencelock/fencelock/bench/internal/worker"
)

// Crowd is a number of processes that want one lock.
type Crowd struct {
	Candidate *candidate.Candidate
	// Processes is how many there are, Goroutines how many are in each.
	Processes, Goroutines int
	// Section is how long each holds the lock.
	Section time.Duration
}

// Case is how reports call it.
func (c Crowd) Case() string {
	return fmt.Sprintf("%d×%d, section %v", c.Processes, max(1, c.Goroutines), c.Section)
}

// Contended lets the processes of each crowd hand one lock over among themselves.
// The crowds run one after the other, in turn; those that do not run are
// connected and silent.
func (e *Env) Contended(ctx context.Context, crowds []Crowd) (Cells, error) {
	var runs []run
	for _, c := range crowds {
		processes, err := worker.Start(ctx, c.Candidate, e.Redis.Addr, c.Processes)
		if err != nil {
			return nil, err
		}
		defer processes.Stop()
		runs = append(runs, run{c.Case(), c.Candidate.Name, func(ctx context.Context, repetition int) (Sample, error) {
			return e.contended(ctx, c, processes, repetition)
		}})
	}
	return e.interleave(ctx, runs)
}

func (e *Env) contended(ctx context.Context, c Crowd, processes *worker.Processes, repetition int) (Sample, error) {
	t := worker.Task{
		// A name for each run: nobody meets the leftovers of the last one.
		Name:       fmt.Sprintf("turn/%d/%s", repetition, c.Case()),
		Goroutines: max(1, c.Goroutines), Section: c.Section, Turns: true, For: e.For,
	}
	return e.steady(ctx, c.Candidate, c.Processes*t.Goroutines, func() (*worker.Result, error) { return processes.Run(ctx, t) })
}

// steady measures the middle of a run in which workers hand a lock over among
// themselves: at its beginning they queue, and at its end they withdraw, which
// would be counted as well.
func (e *Env) steady(ctx context.Context, c *candidate.Candidate, workers int, work func() (*worker.Result, error)) (Sample, error) {
	type outcome struct {
		r   *worker.Result
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		r, err := work()
		done <- outcome{r, err}
	}()
	var from, to int64
	time.Sleep(e.For / 4)
	stats, err := e.counted(ctx, func() error {
		from = time.Now().UnixNano()
		time.Sleep(e.For / 2)
		to = time.Now().UnixNano()
		return nil
	})
	out := <-done
	if err == nil {
		err = out.err
	}
	if err == nil {
		err = failure(out.r)
	}
	if err != nil {
		return nil, err
	}
	h := worker.Between(out.r.Turns, workers, from, to)
	turns := len(h.Cross) + len(h.Same) + h.Overlaps
	if turns == 0 {
		return nil, errors.New("nobody got the lock")
	}
	count := stats.Sent(c.Plain)
	s := perOp(out.r, engine.Count{})
	s[Rate] = float64(turns) / time.Duration(to-from).Seconds()
	s[Commands], s[Usec] = float64(count.Calls)/float64(turns), count.Usec/float64(turns)
	s[Cross], s[Jain], s[Overlaps] = h.CrossShare(), h.Jain(), float64(h.Overlaps)
	if len(h.Cross) > 0 {
		s[Handover50], s[Handover99] = stat.Quantile(h.Cross, 0.5), stat.Quantile(h.Cross, 0.99)
	}
	return s, nil
}
