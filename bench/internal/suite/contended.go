// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/bench/internal/candidate"
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
	section := "empty section"
	if c.Section > 0 {
		section = "section of " + c.Section.String()
	}
	if c.Processes == 1 {
		return fmt.Sprintf("%d goroutines, %s", c.Goroutines, section)
	}
	return fmt.Sprintf("%d processes, %s", c.Processes, section)
}

// manyProcesses is the size from which a crowd is started for each repetition and
// ended after it: several that are connected at a time would fill the memory.
const manyProcesses = 32

// Contended lets the processes of each crowd hand one lock over among themselves.
// The crowds run one after the other, in turn; those that do not run are
// connected and silent.
func (e *Env) Contended(ctx context.Context, crowds []Crowd) (Cells, error) {
	var runs []run
	for _, c := range crowds {
		start := func() (*worker.Processes, error) { return e.started(ctx, c) }
		stop := (*worker.Processes).Stop
		if c.Processes < manyProcesses {
			processes, err := worker.Start(ctx, c.Candidate, e.Server.Addr(), c.Processes)
			if err != nil {
				return nil, err
			}
			defer processes.Stop()
			start = func() (*worker.Processes, error) { return processes, nil }
			stop = func(*worker.Processes) {}
		}
		runs = append(runs, run{c.Case(), c.Candidate.Name, func(ctx context.Context, e *Env, repetition int) (Sample, error) {
			processes, err := start()
			if err != nil {
				return nil, err
			}
			defer stop(processes)
			return e.contended(ctx, c, processes, repetition)
		}})
	}
	return e.interleave(ctx, runs)
}

// started starts a crowd that has worked a little: the others have, by the time
// they are measured.
func (e *Env) started(ctx context.Context, c Crowd) (*worker.Processes, error) {
	processes, err := worker.Start(ctx, c.Candidate, e.Server.Addr(), c.Processes)
	if err != nil {
		return nil, err
	}
	t := worker.Task{Name: "start/" + c.Candidate.Name, Goroutines: max(1, c.Goroutines), For: e.For / warmUp}
	if _, err := processes.Run(ctx, t); err != nil {
		processes.Stop()
		return nil, err
	}
	return processes, nil
}

func (e *Env) contended(ctx context.Context, c Crowd, processes *worker.Processes, repetition int) (Sample, error) {
	t := worker.Task{
		// A name for each run: nobody meets the leftovers of another. redsync, for
		// one, leaves a key behind when it is cancelled at the wrong moment.
		Name:       fmt.Sprintf("turn/%s/%s/%d", c.Candidate.Name, c.Case(), repetition),
		Goroutines: max(1, c.Goroutines), Section: c.Section, For: e.For,
	}
	if c.Processes == 1 {
		return e.local(ctx, c, processes, t)
	}
	t.Turns = true
	return e.steady(ctx, c.Candidate, c.Processes*t.Goroutines, func() (*worker.Result, error) { return processes.Run(ctx, t) })
}

// local measures hand-over inside one process. Turns are not noted one by one: a
// good candidate has a million of them in a second.
func (e *Env) local(ctx context.Context, c Crowd, processes *worker.Processes, t worker.Task) (Sample, error) {
	var r *worker.Result
	stats, err := e.counted(ctx, func() (err error) {
		if r, err = processes.Run(ctx, t); err != nil {
			return err
		}
		return failure(r)
	})
	if err != nil {
		return nil, err
	}
	s := perOp(r)
	s.count(stats, c.Candidate, r.Ops)
	s[Jain] = stat.Jain(r.Each)
	return s, nil
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
		return nil, errNobody
	}
	s := perOp(out.r)
	s.count(stats, c, turns)
	s[Rate] = float64(turns) / time.Duration(to-from).Seconds()
	s[Cross], s[Jain], s[Overlaps] = h.CrossShare(), h.Jain(), float64(h.Overlaps)
	if len(h.Cross) > 0 {
		s[Handover50], s[Handover99] = stat.Quantile(h.Cross, 0.5), stat.Quantile(h.Cross, 0.99)
	}
	return s, nil
}
