// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/worker"
)

// Waiting is the case of so many that wait.
func Waiting(n int) string { return fmt.Sprintf("%d waiting", n) }

// GrowWaiters lets so many lockers of one process, each with its own session or
// connection, pass one lock to each other. It measures the work of the server, which is
// the same whether the lockers are in one process or in many.
func (e *Env) GrowWaiters(ctx context.Context, candidates []*candidate.Candidate, sizes []int) (Cells, error) {
	var runs []run
	for _, n := range sizes {
		for _, c := range candidates {
			// One has the lock while the others wait.
			lockers, err := c.Open(ctx, candidate.Place{Addr: e.Server.Addr(), Processes: 1}, n+1)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.Name, err)
			}
			defer closeAll(lockers)
			if err := prime(ctx, lockers, fmt.Sprintf("prime/%s/%d", c.Name, n)); err != nil {
				return nil, fmt.Errorf("%s: %w", c.Name, err)
			}
			runs = append(runs, run{Waiting(n), c.Name, func(ctx context.Context, e *Env, repetition int) (Sample, error) {
				t := worker.Task{Name: fmt.Sprintf("grow/%s/%d/%d", c.Name, n, repetition), Turns: true, For: e.For}
				return e.steady(ctx, c, n+1, func() (*worker.Result, error) { return worker.Run(ctx, lockers, t, 0), nil })
			}})
		}
	}
	return e.interleave(ctx, runs)
}

// primeFor bounds prime: some candidates pass the lock on a few times in a second only.
const primeFor = 5 * time.Second

// prime lets each locker have one lock once, and most wait for it, so that neither
// connecting nor subscribing is measured.
func prime(ctx context.Context, lockers []candidate.Locker, name string) error {
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(primeFor, cancel).Stop()
	done := make(chan error, len(lockers))
	for _, l := range lockers {
		go func() { done <- l.Do(short, name, nil) }()
	}
	var errs []error
	for range lockers {
		if err := <-done; short.Err() == nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// Names is the case in which so many names are held.
func Names(n int) string { return fmt.Sprintf("%d names held", n) }

// nameGoroutines is how many lock and unlock while names are held.
const nameGoroutines = 16

// GrowNames lets goroutines lock and unlock names that were never used before, on
// a server where so many others are held: whether a lock costs more among many, and
// whether a free one leaves something behind.
func (e *Env) GrowNames(ctx context.Context, c *candidate.Candidate, sizes []int) (Cells, error) {
	return e.whileHeld(ctx, c, sizes, growNames)
}

// whileHeld measures a cell on a server for each size, while so many names are held there.
func (e *Env) whileHeld(ctx context.Context, c *candidate.Candidate, sizes []int, measure func(context.Context, *Env, *candidate.Candidate, int) (*Cell, error)) (Cells, error) {
	var all Cells
	for _, n := range sizes {
		e.Progress("%s, %s: taking them", Names(n), c.Name)
		holding, err := e.Hold(ctx, c, n)
		if err != nil {
			return nil, err
		}
		here := *e
		here.Server = holding.server
		cell, err := measure(ctx, &here, c, n)
		holding.Stop()
		if err != nil {
			return nil, err
		}
		all = append(all, cell)
	}
	return all, nil
}

func growNames(ctx context.Context, here *Env, c *candidate.Candidate, n int) (*Cell, error) {
	lockers, closeLockers, err := here.openOne(ctx, []*candidate.Candidate{c})
	if err != nil {
		return nil, err
	}
	defer closeLockers()
	cells, err := here.interleave(ctx, []run{{Names(n), c.Name, func(ctx context.Context, e *Env, repetition int) (Sample, error) {
		before, err := e.Server.Memory(ctx)
		if err != nil {
			return nil, err
		}
		s, err := e.own(ctx, c, lockers[0], worker.Task{
			Name: fmt.Sprintf("fresh/%d", repetition), Own: true, Fresh: true, Goroutines: nameGoroutines,
		})
		if err != nil {
			return nil, err
		}
		after, err := e.Server.Memory(ctx)
		s[LeftBytes] = max(0, after-before)
		return s, err
	}}})
	if err != nil {
		return nil, err
	}
	return cells[0], nil
}

const (
	// renewers is how many goroutines keep sessions alive, whatever the number of sessions: the server
	// must have the same load in each case.
	renewers = 10
	// kept is how often sessions are kept alive in one sample.
	kept = 20_000
)

// GrowSessions keeps sessions alive on several servers, each with another number of sessions that hold a lock each, in
// turn, as fast as they are answered: what one keep-alive costs the server.
func (e *Env) GrowSessions(ctx context.Context, sizes []int) (Cells, error) {
	var runs []run
	for _, n := range sizes {
		f, err := e.startFilled(ctx)
		if err != nil {
			return nil, err
		}
		defer f.stop()
		all, closeAll, err := f.openSessions(ctx, n)
		if err != nil {
			return nil, err
		}
		defer closeAll()
		runs = append(runs, run{Sessions(n), KeepAlive, func(ctx context.Context, _ *Env, _ int) (Sample, error) {
			usec, err := f.charged(ctx, func() error { return keepInTurn(ctx, all, kept) })
			if err != nil {
				return nil, err
			}
			return Sample{ServerCPU: usec / kept}, keepInTurn(ctx, all, len(all)) // or some end before their next sample
		}})
	}
	return e.interleave(ctx, runs)
}

// keepInTurn sends so many keep-alives, to each session in turn.
func keepInTurn(ctx context.Context, sessions []driver.Session, times int) error {
	errs := make(chan error, renewers)
	for w := range renewers {
		go func() {
			var err error
			for i := w; i < times && err == nil; i += renewers {
				_, err = sessions[i%len(sessions)].KeepAlive(ctx)
			}
			errs <- err
		}()
	}
	var first error
	for range renewers {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}
