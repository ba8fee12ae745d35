// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"context"
	"sync"
	"time"
)

// Pauser delays calls while a store stands still. Every wrapper has its own
// Pauser unless Options.Pauser gives it a shared one: wrappers of one store,
// one for each simulated process, share a Pauser so that they see the store
// pause together. The zero value is ready to use and not paused.
type Pauser struct {
	mu    sync.Mutex
	until time.Time
}

// Pause makes the store stand still for d from now, or longer if it was
// already going to.
func (p *Pauser) Pause(d time.Duration) {
	until := time.Now().Add(d)
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.After(p.until) {
		p.until = until
	}
}

// end returns when the pause ends, and whether that is still to come.
func (p *Pauser) end() (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until, time.Now().Before(p.until)
}

// wait returns when the store goes on, or with the context's error. held reports
// whether the store was paused.
func (p *Pauser) wait(ctx context.Context) (held bool, err error) {
	for {
		until, paused := p.end()
		if !paused {
			return held, nil
		}
		held = true
		// Once round is not enough: the pause may have been made longer.
		if err := sleepUntil(ctx, until); err != nil {
			return held, err
		}
	}
}

// sleepUntil returns nil at the instant at, or the context's error if the
// context ends first.
func sleepUntil(ctx context.Context, at time.Time) error {
	d := time.Until(at)
	if d <= 0 {
		return nil
	}
	if end, ok := ctx.Deadline(); ok && !end.After(at) {
		// Both at the same instant is common under fake time. The context
		// wins, always, or a test would not replay.
		<-ctx.Done()
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
