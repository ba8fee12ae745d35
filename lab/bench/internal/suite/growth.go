// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
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
		go func() { done <- candidate.Do(short, l, name, nil) }()
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

// nameClients is how many lock and unlock while names are held.
const nameClients = 16

// manyKeys is from when a server takes longer to grow its table of keys than to warm up.
const manyKeys = 1_000_000

// GrowNames lets clients lock and unlock names that were never used before, on several servers, in
// turn, on each of which a process holds another number of locks: whether a lock costs the server
// more among many, and whether a free one leaves something behind.
func (e *Env) GrowNames(ctx context.Context, candidates []*candidate.Candidate, sizes []int) (Cells, error) {
	var runs []run
	var all []*Holding
	for _, n := range sizes {
		e.Progress("%s: taking them", Names(n))
		holding, err := e.Hold(ctx, candidate.FencelockRueidis, n)
		if err != nil {
			return nil, err
		}
		defer holding.Stop()
		all = append(all, holding)
		if n >= manyKeys {
			if err := holding.server.(*target.Redis).AwaitGrown(ctx); err != nil {
				return nil, err
			}
		}
		there := e.at(holding.server)
		for _, c := range candidates {
			lockers, err := there.openMany(ctx, c, nameClients)
			if err != nil {
				return nil, err
			}
			defer closeAll(lockers)
			runs = append(runs, run{Names(n), c.Name, func(ctx context.Context, e *Env, repetition int) (Sample, error) {
				here := e.at(holding.server)
				before, err := here.Server.Memory(ctx)
				if err != nil {
					return nil, err
				}
				s, err := here.fleet(ctx, c, lockers, worker.Task{
					Name: fmt.Sprintf("fresh/%s/%d", c.Name, repetition), Own: true, Fresh: true, Goroutines: 1, Uncanceled: true,
				})
				if err != nil {
					return nil, err
				}
				after, err := here.Server.Memory(ctx)
				s[LeftBytes] = max(0, after-before)
				return s, err
			}})
		}
	}
	cells, err := e.interleave(ctx, runs)
	for _, h := range all { // fewer names would have looked cheaper
		err = errors.Join(err, h.stillHeld(ctx))
	}
	return cells, err
}
