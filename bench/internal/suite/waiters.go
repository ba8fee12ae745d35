// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/bench/internal/candidate"
	"github.com/fencelock/fencelock/bench/internal/worker"
)

// Waiting is the case of so many that wait.
func Waiting(n int) string { return fmt.Sprintf("%d waiting", n) }

// Growth lets so many lockers of one process, each with a session or connection of
// its own, hand one lock over among themselves: what the server does for it, which
// is the same whether they are in one process or in many.
func (e *Env) Growth(ctx context.Context, c *candidate.Candidate, sizes []int) (Cells, error) {
	var runs []run
	for _, n := range sizes {
		// One has the lock while the others wait.
		lockers, err := c.Open(ctx, candidate.Place{Addr: e.Redis.Addr, Processes: 1}, n+1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		defer closeAll(lockers)
		runs = append(runs, run{Waiting(n), c.Name, func(ctx context.Context, repetition int) (Sample, error) {
			t := worker.Task{Name: fmt.Sprintf("grow/%d/%d", n, repetition), Turns: true, For: e.For}
			return e.steady(ctx, c, n+1, func() (*worker.Result, error) { return worker.Run(ctx, lockers, t, 0), nil })
		}})
	}
	return e.interleave(ctx, runs)
}

// Idle lets so many lockers wait for a lock that is held, and returns how many
// commands were sent in two seconds, and how many pings. The first second is not counted: in it they queue.
func (e *Env) Idle(ctx context.Context, c *candidate.Candidate, waiters int) (commands, pings int, err error) {
	lockers, err := c.Open(ctx, candidate.Place{Addr: e.Redis.Addr, Processes: 1}, waiters+1)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", c.Name, err)
	}
	defer closeAll(lockers)
	const name = "idle"
	if err := lockers[0].Hold(ctx, name); err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, waiters)
	for _, l := range lockers[1:] {
		go func() { ended <- l.Do(ctx, name, nil) }()
	}
	time.Sleep(time.Second)
	stats, err := e.counted(ctx, func() error { time.Sleep(2 * time.Second); return nil })
	early := len(ended)
	cancel()
	for range waiters {
		<-ended
	}
	if err == nil && early > 0 {
		err = fmt.Errorf("%s: %d of %d did not wait", c.Name, early, waiters)
	}
	return stats.Sent(c.Plain).Calls, stats.Pings(), err
}

func closeAll(lockers []candidate.Locker) {
	done := make(chan struct{})
	for _, l := range lockers {
		go func() { l.Close(); done <- struct{}{} }()
	}
	for range lockers {
		<-done
	}
}
