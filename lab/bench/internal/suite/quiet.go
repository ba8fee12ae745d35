// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/target"
)

// A server is quiet if it got no commands for quietGap. The run waits for that at most
// quietBound: a candidate that never stops sending must not end the run.
const (
	quietGap   = 250 * time.Millisecond
	quietBound = 4 * time.Second
)

// quiet waits until the server gets no commands, because commands of the candidate that
// has just run would be counted for the next one. Redisson sends commands for seconds
// after its run, and they were once counted for a Go channel, which uses no server.
// Commands less frequent than quietGap are not noticed. quiet does not wait for a server
// that does not count.
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

// counting runs work between two readings of the server's counters and returns the
// difference, nil if the server does not count. It is for callers that begin to count in
// the middle of their work; they call quiet before that work begins.
func (e *Env) counting(ctx context.Context, work func() error) (target.Stats, error) {
	if err := e.Server.ResetStats(ctx); err != nil {
		return nil, err
	}
	if err := work(); err != nil {
		return nil, err
	}
	return e.Server.Stats(ctx)
}
