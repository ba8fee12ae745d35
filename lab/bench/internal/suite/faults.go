// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
	"github.com/fencelock/fencelock/lab/bench/internal/worker"
)

// Fault is something that happens to servers while candidates are connected.
type Fault struct {
	// Case is how reports call it.
	Case string
	// Inject makes it happen; undo may be nil.
	Inject func(target.Server) (undo func(), err error)
}

// faultGoroutines is how many goroutines lock and unlock, each its own name.
const faultGoroutines = 16

// noticed is how long candidates have to notice a fault before they are measured.
const noticed = 3 * time.Second

// Faulty measures candidates under each of the faults, on separate servers.
func (e *Env) Faulty(ctx context.Context, candidates []*candidate.Candidate, faults []Fault) (Cells, error) {
	return collect(faults, func(f Fault) (Cells, error) { return e.faulty(ctx, candidates, f) })
}

func (e *Env) faulty(ctx context.Context, candidates []*candidate.Candidate, f Fault) (Cells, error) {
	here, err := e.fresh(ctx)
	if err != nil {
		return nil, err
	}
	defer here.Server.Stop()
	lockers, closeLockers, err := here.openOne(ctx, candidates)
	if err != nil {
		return nil, err
	}
	defer closeLockers()
	task := func(c *candidate.Candidate, d time.Duration) worker.Task {
		return worker.Task{Name: "own/" + c.Name, Own: true, Tolerant: true, Goroutines: faultGoroutines, For: d}
	}
	for i, c := range candidates { // all is well at first
		worker.Run(ctx, lockers[i:i+1], task(c, e.For/warmUp), 0)
	}
	undo, err := f.Inject(here.Server)
	if undo != nil {
		defer undo()
	}
	if err != nil {
		return nil, err
	}
	for i, c := range candidates { // how they fare now is measured below
		go worker.Run(ctx, lockers[i:i+1], task(c, noticed), faultGoroutines)
	}
	time.Sleep(noticed + time.Second)
	var runs []run
	for i, c := range candidates {
		runs = append(runs, run{f.Case, c.Name, func(ctx context.Context, e *Env, _ int) (Sample, error) {
			return e.own(ctx, c, lockers[i], task(c, e.For))
		}})
	}
	return here.interleave(ctx, runs)
}
