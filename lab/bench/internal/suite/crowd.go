// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/worker"
)

// Contending is the case of so many sessions that want one lock.
func Contending(n int) string { return fmt.Sprintf("%d sessions, one lock", n) }

// statements is a server that counts the statements of our candidate.
type statements interface {
	Statements(ctx context.Context) (float64, error)
}

// SessionCrowd lets so many lockers, each with its own session or connection, pass one
// lock to each other, and measures the rate, the processor time of the server and the
// statements of each handoff. The lockers of one size are closed before those of the next
// are opened: what a server sends to every session that listens would be a cost of all
// sizes otherwise.
func (e *Env) SessionCrowd(ctx context.Context, candidates []*candidate.Candidate, sizes []int, section time.Duration) (Cells, error) {
	return collect(sizes, func(n int) (Cells, error) { return e.sessions(ctx, candidates, n, section) })
}

// queueEach is how long a crowd works before it is measured, for each of its sessions. In that time the withdrawals of the run before end, and
// the claims of this run are queued: a claim costs the server as much as a handoff, and a thousand of them all that it does in a quarter of
// a second.
const queueEach = time.Millisecond

// sessions measures one size. Nothing is measured before each locker has had the lock: what
// comes before is connecting.
func (e *Env) sessions(ctx context.Context, candidates []*candidate.Candidate, n int, section time.Duration) (Cells, error) {
	var runs []run
	for _, c := range candidates {
		lockers, err := c.Open(ctx, candidate.Place{Addr: e.Server.Addr(), Processes: 1}, n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		defer closeAll(lockers)
		t := worker.Task{Name: fmt.Sprintf("crowd/%s/%d", c.Name, n), Turns: true, Section: section, For: e.For}
		if err := everyTurn(ctx, lockers, t); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", Contending(n), c.Name, err)
		}
		runs = append(runs, run{Contending(n), c.Name, func(ctx context.Context, e *Env, repetition int) (Sample, error) {
			e = e.Lasting(e.Repetitions, e.For+time.Duration(n)*queueEach*leadShare)
			t := t
			t.Name, t.For = fmt.Sprintf("%s/%d", t.Name, repetition), e.For
			return e.charging(ctx, n, func() (*worker.Result, error) { return worker.Run(ctx, lockers, t, 0), nil })
		}})
	}
	return e.interleave(ctx, runs)
}

// warmRounds bounds how often a crowd works before each of its lockers has had the lock, and
// warmFactor is how much longer than a measurement each of these is.
const warmRounds, warmFactor = 10, 4

// everyTurn lets lockers work until each has had the lock.
func everyTurn(ctx context.Context, lockers []candidate.Locker, t worker.Task) error {
	had := make([]bool, len(lockers))
	t.For *= warmFactor
	for round := range warmRounds {
		t := t
		t.Name = fmt.Sprintf("%s/warm/%d", t.Name, round)
		r := worker.Run(ctx, lockers, t, 0)
		if err := failure(r); err != nil && !errors.Is(err, errNotAcquired) {
			return err
		}
		missing := 0
		for i, n := range r.Each {
			had[i] = had[i] || n > 0
			if !had[i] {
				missing++
			}
		}
		if missing == 0 {
			return nil
		}
	}
	return fmt.Errorf("not every session had the lock in %d runs of %v", warmRounds, t.For)
}

// charging measures the middle of a run, with what the server spent on each operation:
// processor time, and statements if it counts them.
func (e *Env) charging(ctx context.Context, workers int, work func() (*worker.Result, error)) (Sample, error) {
	count := func() (float64, error) { return 0, nil }
	if s, ok := e.Server.(statements); ok {
		count = func() (float64, error) { return s.Statements(ctx) }
	}
	var usec, sent float64
	s, turns, err := e.middle(workers, work, func(wait func()) error {
		before, err := count()
		if err != nil {
			return err
		}
		usec, err = e.charged(ctx, func() error { wait(); return nil })
		if err != nil {
			return err
		}
		after, err := count()
		sent = after - before
		return err
	})
	if err != nil {
		return nil, err
	}
	e.Progress("%d handoffs in %v, %.0f µs of the server", turns, e.For/2, usec)
	s[ServerCPU], s[Commands] = usec/float64(turns), sent/float64(turns)
	return s, nil
}
