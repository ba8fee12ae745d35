// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/stat"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
	"github.com/fencelock/fencelock/lab/bench/internal/worker"
)

// Crowd is a number of processes that want one lock.
type Crowd struct {
	Candidate *candidate.Candidate
	// Processes is how many there are, Goroutines how many are in each.
	Processes, Goroutines int
	// Section is how long each holds the lock.
	Section time.Duration
}

// Case is how reports call it. Crowds that differ have cases that do: cells are found
// by them.
func (c Crowd) Case() string {
	section := "empty section"
	if c.Section > 0 {
		section = "section of " + c.Section.String()
	}
	switch {
	case c.Processes == 1:
		return fmt.Sprintf("%d goroutines, %s", c.Goroutines, section)
	case c.Goroutines > 1:
		return fmt.Sprintf("%d processes of %d goroutines, %s", c.Processes, c.Goroutines, section)
	}
	return fmt.Sprintf("%d processes, %s", c.Processes, section)
}

// manyProcesses is the size from which a crowd is started for each repetition and
// ended after it: several that are connected at a time would fill the memory.
const manyProcesses = 32

// Contended lets the processes of each crowd hand one lock over among themselves.
// The crowds run one after the other, in turn; those that do not run stay connected,
// and each begins when the server gets no commands of the one before (quiet).
func (e *Env) Contended(ctx context.Context, crowds []Crowd) (Cells, error) {
	var f fleet
	defer f.stop()
	return e.contend(ctx, crowds, &f)
}

// contend is Contended with processes that may have been started before.
func (e *Env) contend(ctx context.Context, crowds []Crowd, f *fleet) (Cells, error) {
	var runs []run
	for _, c := range crowds {
		sample := func(ctx context.Context, e *Env, repetition int) (Sample, error) {
			processes, err := e.started(ctx, c)
			if err != nil {
				return nil, err
			}
			defer processes.Stop()
			return e.contended(ctx, c, processes, repetition)
		}
		if c.Processes < manyProcesses {
			processes, err := f.of(ctx, c, e.Server.Addr())
			if err != nil && !e.KeepGoing {
				return nil, err
			}
			sample = func(ctx context.Context, e *Env, repetition int) (Sample, error) {
				if err != nil {
					return nil, err
				}
				return e.contended(ctx, c, processes, repetition)
			}
		}
		runs = append(runs, run{c.Case(), c.Candidate.Name, sample})
	}
	return e.interleave(ctx, runs)
}

// fleet keeps processes for several measurements, by candidate and number.
type fleet struct{ all map[Crowd]*worker.Processes }

// of returns the processes of a crowd; they are started when first asked for.
func (f *fleet) of(ctx context.Context, c Crowd, addr string) (*worker.Processes, error) {
	key := Crowd{Candidate: c.Candidate, Processes: c.Processes}
	if p := f.all[key]; p != nil {
		return p, nil
	}
	p, err := worker.Start(ctx, c.Candidate, addr, c.Processes)
	if err != nil {
		return nil, err
	}
	if f.all == nil {
		f.all = map[Crowd]*worker.Processes{}
	}
	f.all[key] = p
	return p, nil
}

func (f *fleet) stop() {
	for _, p := range f.all {
		p.Stop()
	}
}

// rampUp is how long a new crowd works at least before it is measured: in less, 64
// processes have not all had a turn, and what is measured is how they connect.
const rampUp = time.Second

// started starts a crowd that has worked a little: the others have, by the time
// they are measured.
func (e *Env) started(ctx context.Context, c Crowd) (*worker.Processes, error) {
	processes, err := worker.Start(ctx, c.Candidate, e.Server.Addr(), c.Processes)
	if err != nil {
		return nil, err
	}
	t := worker.Task{Name: "start/" + c.Candidate.Name, Goroutines: max(1, c.Goroutines), For: max(rampUp, e.For/warmUp)}
	if _, err := processes.Run(ctx, t); err != nil {
		processes.Stop()
		return nil, err
	}
	return processes, nil
}

func (e *Env) contended(ctx context.Context, c Crowd, processes *worker.Processes, repetition int) (Sample, error) {
	t := worker.Task{
		// A name for each run: no run meets the leftovers of another. redsync, for
		// one, leaves a key behind when it is canceled at the wrong moment.
		Name:       fmt.Sprintf("turn/%s/%s/%d", c.Candidate.Name, c.Case(), repetition),
		Goroutines: max(1, c.Goroutines), Section: c.Section, For: e.For,
	}
	if c.Processes == 1 {
		return e.local(ctx, c, processes, t)
	}
	t.Turns = true
	return e.steady(ctx, c.Candidate, c.Processes*t.Goroutines, func() (*worker.Result, error) { return processes.Run(ctx, t) })
}

// local measures handoff inside one process. Turns are not noted one by one: a
// good candidate has a million of them in a second.
func (e *Env) local(ctx context.Context, c Crowd, processes *worker.Processes, t worker.Task) (Sample, error) {
	var r *worker.Result
	stats, err := e.counted(ctx, func() (err error) {
		r, err = processes.Run(ctx, t)
		if err != nil {
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
	if err := e.quiet(ctx); err != nil { // now: those who are measured are not
		return nil, err
	}
	var stats target.Stats
	s, turns, err := e.middle(workers, work, func(wait func()) (err error) {
		stats, err = e.counting(ctx, func() error { wait(); return nil })
		return err
	})
	if err != nil {
		return nil, err
	}
	s.count(stats, c, turns)
	return s, nil
}

// leadShare is which part of a run comes before its middle.
const leadShare = 4

// middle runs work and calls measure for the middle of it, with a function that returns
// when the middle is over. It returns what the turns of that time show, and their number.
func (e *Env) middle(workers int, work func() (*worker.Result, error), measure func(wait func()) error) (Sample, int, error) {
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
	time.Sleep(e.For / leadShare)
	err := measure(func() {
		from = time.Now().UnixNano()
		time.Sleep(e.For / 2)
		to = time.Now().UnixNano()
	})
	out := <-done
	if err == nil {
		err = out.err
	}
	if err == nil {
		err = failure(out.r)
	}
	if err != nil {
		return nil, 0, err
	}
	h := worker.Between(out.r.Turns, workers, from, to)
	turns := len(h.Cross) + len(h.Same) + h.Overlaps
	if turns == 0 {
		return nil, 0, errNotAcquired
	}
	s := perOp(out.r)
	s[Rate] = float64(turns) / time.Duration(to-from).Seconds()
	s[Cross], s[Jain], s[Overlaps] = h.CrossShare(), h.Jain(), float64(h.Overlaps)
	if len(h.Cross) > 0 {
		s[Handoff50], s[Handoff99] = stat.Quantile(h.Cross, 0.5), stat.Quantile(h.Cross, 0.99)
	}
	return s, turns, nil
}
