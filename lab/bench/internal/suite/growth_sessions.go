// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/worker"
)

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

// GrowHeldThrough is GrowHeld for any server: the locks are taken through the library, and the servers follow each
// other.
func (e *Env) GrowHeldThrough(ctx context.Context, c *candidate.Candidate, sizes []int) (Cells, error) {
	return e.whileHeld(ctx, c, sizes, heldThrough)
}

func heldThrough(ctx context.Context, here *Env, c *candidate.Candidate, n int) (*Cell, error) {
	lockers, err := here.openMany(ctx, c, manyClients)
	if err != nil {
		return nil, err
	}
	defer closeAll(lockers)
	cells, err := here.interleave(ctx, []run{{Names(n), c.Name, func(ctx context.Context, e *Env, repetition int) (Sample, error) {
		return e.fleet(ctx, c, lockers, worker.Task{
			Name: fmt.Sprintf("fresh/%d", repetition), Own: true, Fresh: true, Goroutines: 1, Uncanceled: true,
		})
	}}})
	if err != nil {
		return nil, err
	}
	return cells[0], nil
}
