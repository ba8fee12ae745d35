// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/bench/internal/target"
)

// A server is quiet if it was asked nothing for quietGap. Nobody waits for it longer
// than quietBound: a candidate that never falls silent must not end the run.
const (
	quietGap   = 250 * time.Millisecond
	quietBound = 10 * time.Second
)

// quiet waits until the server gets no commands: those of a crowd that has just run
// would be charged to the next. Redisson's go on for seconds, and a Go channel, which
// asks no server, was said to send some. What asks less often than every quietGap is
// not noticed. A server that does not count is not waited for.
//
//	A runs ──┐ leftovers of A ┄┄┄┄┐
//	         └ read ≠ read ≠ read = read ── reset ── B runs ── read
func (e *Env) quiet(ctx context.Context) error {
	last, err := e.Server.Stats(ctx)
	if err != nil || last == nil {
		return err
	}
	for began := time.Now(); ; {
		select {
		case <-time.After(quietGap):
		case <-ctx.Done():
			return ctx.Err()
		}
		now, err := e.Server.Stats(ctx)
		if err != nil {
			return err
		}
		more := asked(now) - asked(last)
		if more == 0 {
			return nil
		}
		if time.Since(began) >= quietBound {
			e.Progress("after %v the server still gets %d commands in %v from those that do not run; they will be charged to the next",
				quietBound, more, quietGap)
			return nil
		}
		last = now
	}
}

// asked is how many commands there were, without those that ask whether a connection
// is well, which no candidate is charged with, and without our own reading.
func asked(s target.Stats) (n int) {
	for name, c := range s {
		if name != "ping" && name != "info" {
			n += c.Calls
		}
	}
	return n
}

// counting runs work between two readings of the server's counters and returns
// what was counted meanwhile, nil if the server does not count. It is for those who
// begin to count in the middle of their work; they call quiet before they begin it.
func (e *Env) counting(ctx context.Context, work func() error) (target.Stats, error) {
	if err := e.Server.ResetStats(ctx); err != nil {
		return nil, err
	}
	if err := work(); err != nil {
		return nil, err
	}
	return e.Server.Stats(ctx)
}
