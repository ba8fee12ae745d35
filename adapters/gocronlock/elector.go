// SPDX-License-Identifier: Apache-2.0

package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/fencelock/fencelock"
)

// Elector is a gocron.Elector: all jobs of a scheduler run on the replica that leads. gocron
// asks it before each run only, so a run goes on if its replica stops leading during it.
type Elector struct {
	election *fencelock.Election
	name     string
	stop     context.CancelFunc
	over     chan struct{}

	mu  sync.Mutex
	err error // of Run, once it has returned
}

// NewElector begins to campaign in the background, until Close.
func NewElector(c *fencelock.Client, name string) *Elector {
	ctx, stop := context.WithCancel(context.Background())
	e := &Elector{election: c.Election(name), name: name, stop: stop, over: make(chan struct{})}
	go e.campaign(ctx)
	return e
}

func (e *Elector) campaign(ctx context.Context) {
	defer close(e.over)
	err := e.election.Run(ctx, func(ctx context.Context, _ *fencelock.Lease) error {
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		// Run campaigns through every failure that can pass, so this one is for good.
		slog.Error("gocronlock: this replica no longer campaigns", "election", e.name, "error", err)
	}
	e.mu.Lock()
	e.err = err
	e.mu.Unlock()
}

// IsLeader returns nil if this replica leads now. It does no I/O.
func (e *Elector) IsLeader(context.Context) error {
	if e.election.Term() != nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return fmt.Errorf("gocronlock: this replica no longer campaigns for %q: %w", e.name, e.err)
	}
	return fmt.Errorf("gocronlock: another replica leads %q, or none does yet", e.name)
}

// Close stops campaigning and gives the leadership back, so that another replica leads at
// once. Shut the scheduler down first: its jobs may still run.
func (e *Elector) Close(ctx context.Context) error {
	e.stop()
	select {
	case <-e.over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("gocronlock: close the elector of %q: %w", e.name, context.Cause(ctx))
	}
}
