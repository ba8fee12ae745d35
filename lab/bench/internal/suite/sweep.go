// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
	"github.com/fencelock/fencelock/lab/bench/internal/worker"
)

// The cases of Sweep.
const (
	BeforeSweep = "before"
	WhileSwept  = "while the locks are removed"
)

const (
	// endsWithin bounds the time until the session of a dead process ends: twice its TTL.
	endsWithin = 2 * fencelock.DefaultTTL
	// sweptWithin is how long the others are measured at most while locks are removed.
	sweptWithin = 30 * time.Second
	// sweepOthers is how many clients lock and unlock, each with this pause.
	sweepOthers = 16
	sweepPause  = 5 * time.Millisecond
	// sweepStart is the time in which the live sessions are opened, so that they are not
	// all kept alive in the same moment.
	sweepStart = 4 * time.Second
)

// Sweep lets clients lock and unlock on a server with so many live sessions, while the
// locks of a process that died with many are removed, and just before that. It is done once
// for each repetition, on a new server.
func (e *Env) Sweep(ctx context.Context, locks, sessions int) (Cells, error) {
	before := &Cell{Case: BeforeSweep, Candidate: candidate.FencelockRueidis.Name}
	swept := &Cell{Case: WhileSwept, Candidate: before.Candidate}
	for i := range e.Repetitions {
		e.Progress("a process dies with %d locks among %d: %d of %d", locks, sessions, i+1, e.Repetitions)
		a, b, err := e.sweep(ctx, locks, sessions)
		if err != nil {
			return nil, err
		}
		before.Samples, swept.Samples = append(before.Samples, a), append(swept.Samples, b)
	}
	return Cells{before, swept}, nil
}

func (e *Env) sweep(ctx context.Context, locks, sessions int) (before, swept Sample, err error) {
	c := candidate.FencelockRueidis
	holding, err := e.Hold(ctx, c, locks)
	if err != nil {
		return nil, nil, err
	}
	defer holding.Stop()
	there := e.at(holding.server)
	live, err := there.live(ctx, c, sessions)
	if err != nil {
		return nil, nil, err
	}
	defer closeAll(live)
	others, err := there.openMany(ctx, c, sweepOthers)
	if err != nil {
		return nil, nil, err
	}
	defer closeAll(others)
	before, err = there.beside(ctx, others, func(took time.Duration) (bool, error) { return took < e.For, nil })
	if err != nil {
		return nil, nil, err
	}
	server := holding.server.(*target.Redis)
	full, err := server.Keys(ctx)
	if err != nil {
		return nil, nil, err
	}
	holding.processes.Kill()
	if err := awaitEnd(ctx, others[0]); err != nil {
		return nil, nil, err
	}
	e.Progress("the session has ended")
	left := func() (int, error) {
		n, err := server.Keys(ctx)
		return n - (full - locks), err
	}
	swept, err = there.beside(ctx, others, func(took time.Duration) (bool, error) {
		n, err := left()
		return n > locks/100 && took < sweptWithin, err
	})
	if err != nil {
		return nil, nil, err
	}
	n, err := left()
	swept[Left] = 100 * float64(max(0, n)) / float64(locks)
	return before, swept, err
}

// awaitEnd waits until the session of the process that held the locks has ended.
func awaitEnd(ctx context.Context, l candidate.Locker) error {
	for end := time.Now().Add(endsWithin); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if holders(ctx, l, holdName+"/0", 1) != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("the session of a dead process has not ended in %v", endsWithin)
}

// live opens sessions that are kept alive: each client holds a lock.
func (e *Env) live(ctx context.Context, c *candidate.Candidate, n int) ([]candidate.Locker, error) {
	live, err := c.Open(ctx, candidate.Place{Addr: e.Server.Addr(), Processes: 1}, n)
	if err != nil {
		return nil, err
	}
	for i, l := range live {
		began := time.Now()
		if _, err := l.Lock(ctx, fmt.Sprint("live/", i)); err != nil {
			closeAll(live)
			return nil, err
		}
		time.Sleep(sweepStart/time.Duration(n) - time.Since(began))
	}
	return live, nil
}

// besideSlice is how long others lock and unlock before more is asked whether it is enough.
const besideSlice = 250 * time.Millisecond

// beside lets others lock and unlock for a slice, and for as long as there is more.
func (e *Env) beside(ctx context.Context, others []candidate.Locker, more func(took time.Duration) (bool, error)) (Sample, error) {
	longest, err := e.Server.(*target.Redis).WatchSlow(ctx)
	if err != nil {
		return nil, err
	}
	task := worker.Task{Name: "beside", Own: true, Goroutines: 1, Tolerant: true, Pause: sweepPause, For: besideSlice}
	var results []*worker.Result
	began := time.Now()
	for again := true; again; {
		r := worker.Run(ctx, others, task, 0)
		results = append(results, r)
		if r.Failed > 0 {
			e.Progress("%d of %d failed, one of them: %s", r.Failed, r.Failed+r.Ops, r.Err)
		}
		again, err = more(time.Since(began))
		if err != nil {
			return nil, err
		}
	}
	took := time.Since(began)
	slow, err := longest(ctx)
	s := Sample{Longest: float64(slow.Microseconds()) / 1000, Seconds: took.Seconds()}
	s.latencies(results)
	return s, err
}
