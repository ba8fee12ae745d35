// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"

	"github.com/fencelock/fencelock/driver"
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
