// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"context"
	"sync"
)

// Step reports that the call under ctx is about to make a round trip to the
// resource. A case may stop the caller here; outside of a case Step does
// nothing. Call it wherever another holder could come in between.
func Step(ctx context.Context) {
	if g, ok := ctx.Value(gateKey{}).(*gate); ok {
		g.step(ctx)
	}
}

// Lost reports that the reply to the call under ctx has just been lost: the resource
// is done with it, and the caller does not know yet. A case may let another holder
// in here; outside of a case Lost does nothing. Dialer calls it.
func Lost(ctx context.Context) {
	if overtake, ok := ctx.Value(lostKey{}).(func()); ok {
		overtake()
	}
}

type (
	gateKey struct{}
	lostKey struct{}
)

// gate counts the steps of one call and stops it before one of them.
type gate struct {
	at      int           // stop before this step, counted from 1; 0: never
	stopped chan struct{} // closed when the call has come there
	goOn    chan struct{} // closed to let it go on

	mu    sync.Mutex
	steps int
}

func newGate(at int) *gate {
	return &gate{at: at, stopped: make(chan struct{}), goOn: make(chan struct{})}
}

func (g *gate) with(ctx context.Context) context.Context {
	return context.WithValue(ctx, gateKey{}, g)
}

func (g *gate) step(ctx context.Context) {
	g.mu.Lock()
	g.steps++
	here := g.steps == g.at
	g.mu.Unlock()
	if !here {
		return
	}
	close(g.stopped)
	select {
	case <-g.goOn:
	case <-ctx.Done():
	}
}

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.steps
}

// Trips returns how many round trips f makes with the context it is given.
// Subtract what the same work needs without the guard.
func Trips(ctx context.Context, f func(ctx context.Context) error) (int, error) {
	g := newGate(0)
	err := f(g.with(ctx))
	return g.count(), err
}
