// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/target"
)

// Env is where a measurement runs.
type Env struct {
	Server target.Server
	// Start starts another server of the same server.
	Start func(ctx context.Context) (target.Server, error)
	// Repetitions is how many count; a short one comes first, to warm up.
	Repetitions int
	// For is how long each lasts.
	For time.Duration
	// KeepGoing notes what fails in its cell and goes on with the rest.
	KeepGoing bool
	// Scale is by what Scaled multiplies; 0 stands for 1.
	Scale float64
	// Progress reports what is going on.
	Progress func(format string, args ...any)

	requests bool // in Uncontended
}

// Lasting returns the same place with other repetitions.
func (e *Env) Lasting(repetitions int, each time.Duration) *Env {
	other := *e
	other.Repetitions, other.For = repetitions, each
	return &other
}

// at returns the same place with another server.
func (e *Env) at(server target.Server) *Env {
	other := *e
	other.Server = server
	return &other
}

// fresh is at a new server, which the caller stops.
func (e *Env) fresh(ctx context.Context) (*Env, error) {
	server, err := e.Start(ctx)
	return e.at(server), err
}

// AtLeast returns the same place with repetitions that last so long or longer: many
// workers who are measured for less than a few turns of each look unfair.
func (e *Env) AtLeast(each time.Duration) *Env { return e.Lasting(e.Repetitions, max(e.For, each)) }

// Requests returns the same environment, with another context for every lock.
func (e *Env) Requests() *Env {
	other := *e
	other.requests = true
	return &other
}

// Scaled returns how many of n to measure with: a try need not be as large as what is
// promised.
func (e *Env) Scaled(n int) int {
	if e.Scale == 0 {
		return n
	}
	return max(1, int(e.Scale*float64(n)))
}

// run is one candidate in one case.
type run struct {
	kase, candidate string
	sample          func(ctx context.Context, e *Env, repetition int) (Sample, error)
}

// warmUp is the share of a repetition that the first lasts, which does not count.
const warmUp = 4

// interleave runs all in turn, as often as env says, each time in another order.
func (e *Env) interleave(ctx context.Context, runs []run) (Cells, error) {
	cells := make(Cells, len(runs))
	for i, r := range runs {
		cells[i] = &Cell{Case: r.kase, Candidate: r.candidate}
	}
	warm := e.Lasting(e.Repetitions, e.For/warmUp)
	for repetition, order := range orders(len(runs), e.Repetitions+1) {
		here := e
		if repetition == 0 {
			here = warm
		}
		for _, at := range order {
			if cells[at].Failed != "" {
				continue
			}
			if err := here.once(ctx, runs[at], cells[at], repetition); err != nil {
				return nil, err
			}
		}
	}
	return cells, nil
}

// alone runs one of them once.
func (e *Env) alone(ctx context.Context, r run) (*Cell, error) {
	cell := &Cell{Case: r.kase, Candidate: r.candidate}
	return cell, e.once(ctx, r, cell, e.Repetitions)
}

// collect measures one after the other.
func collect[T any](all []T, measure func(T) (Cells, error)) (cells Cells, err error) {
	for _, one := range all {
		more, err := measure(one)
		if err != nil {
			return nil, err
		}
		cells = append(cells, more...)
	}
	return cells, nil
}

// tries is how often a sample is taken before it is believed that no client can get
// the lock: the machine may have been busy otherwise.
const tries = 5

// once runs one of them once. The repetition 0 warms up.
func (e *Env) once(ctx context.Context, r run, cell *Cell, repetition int) error {
	e.Progress("%s, %s: %d of %d", r.kase, r.candidate, repetition, e.Repetitions)
	s, err := r.sample(ctx, e, repetition)
	for try := 1; try < tries && repetition > 0 && errors.Is(err, errNotAcquired); try++ {
		longer := e.Lasting(e.Repetitions, e.For<<try)
		e.Progress("%s, %s: no client acquired the lock; trying again for %v", r.kase, r.candidate, longer.For)
		s, err = r.sample(ctx, longer, repetition+try*(e.Repetitions+1)) // another number, another name
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case repetition == 0 && errors.Is(err, errNotAcquired):
		return nil // still busy connecting
	case err != nil && e.KeepGoing:
		e.Progress("%s, %s: failed: %v", r.kase, r.candidate, err)
		cell.Failed, cell.Samples = err.Error(), nil
		return nil
	case err != nil:
		return fmt.Errorf("%s, %s: %w", r.kase, r.candidate, err)
	case repetition > 0:
		cell.Samples = append(cell.Samples, s)
	}
	return nil
}

// counted waits until the server is quiet, runs work between two readings of its
// counters and returns the difference, nil if the server does not count.
func (e *Env) counted(ctx context.Context, work func() error) (target.Stats, error) {
	if err := e.quiet(ctx); err != nil {
		return nil, err
	}
	return e.counting(ctx, work)
}

// orderSeed makes the orders the same in every run of the program: two runs differ in
// what they measure, not in how.
const orderSeed = 1

// orders returns the order of n in each repetition. They are shuffled, and again until
// no candidate directly follows the one it followed in the repetition before: what one leaves
// behind, a warm cache or a busy server, is then not always the share of the same.
// Letting each repetition begin one further, as one would first think of, keeps all
// neighbors but one. The loop ends: the reverse of an order will always do.
func orders(n, repetitions int) [][]int {
	rng := rand.New(rand.NewPCG(orderSeed, uint64(n)))
	all := make([][]int, 0, repetitions)
	before := make(map[int]int, n) // whom each followed
	for len(all) < repetitions {
		order := rng.Perm(n)
		follows := make(map[int]int, n)
		kept := false
		for i := 1; i < n; i++ {
			follows[order[i]] = order[i-1]
			whom, ok := before[order[i]]
			kept = kept || ok && whom == order[i-1]
		}
		if !kept {
			all, before = append(all, order), follows
		}
	}
	return all
}
