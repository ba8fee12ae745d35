// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
)

const (
	// IdleFor is how long those who wait are watched, and idleAfter how long
	// they have before it to come and queue.
	IdleFor   = 2 * time.Second
	idleAfter = time.Second
)

// Idle lets so many lockers wait for a lock that is held, and returns how many
// commands were sent while they waited, and how many pings.
func (e *Env) Idle(ctx context.Context, candidates []*candidate.Candidate, waiters int) (Cells, error) {
	return collect(candidates, func(c *candidate.Candidate) (Cells, error) {
		cell, err := e.alone(ctx, run{Waiting(waiters), c.Name, func(ctx context.Context, e *Env, _ int) (Sample, error) {
			return e.idle(ctx, c, waiters)
		}})
		return Cells{cell}, err
	})
}

func (e *Env) idle(ctx context.Context, c *candidate.Candidate, waiters int) (Sample, error) {
	lockers, err := c.Open(ctx, candidate.Place{Addr: e.Server.Addr(), Processes: 1}, waiters+1)
	if err != nil {
		return nil, err
	}
	defer closeAll(lockers)
	name := "idle/" + c.Name
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if _, err := lockers[0].Lock(ctx, name); err != nil {
		return nil, err
	}
	waiting, giveUp := context.WithCancel(ctx)
	ended := make(chan error, waiters)
	for _, l := range lockers[1:] {
		go func() { ended <- candidate.Do(waiting, l, name, nil) }()
	}
	time.Sleep(idleAfter)
	stats, err := e.counting(ctx, func() error { time.Sleep(IdleFor); return nil })
	early := len(ended)
	giveUp()
	for range waiters {
		<-ended
	}
	if err == nil && early > 0 {
		err = fmt.Errorf("%d of %d did not wait", early, waiters)
	}
	return Sample{Sent: float64(stats.Sent(c.Plain).Calls), Pings: float64(stats.Pings())}, err
}
