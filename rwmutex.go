// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/timing"
)

// RWMutex is a lock that either one writer or any number of readers have. Turns
// are in the order of asking: readers that came before a writer are let in
// together, readers that came after it wait for it, so neither side starves.
// Readers of one process that wait together count as having come with the first
// of them. A Mutex of the same name is its write lock. It is a cheap handle.
type RWMutex struct{ r, w handle }

// RWMutex returns a handle for the lock of that name. It does no I/O; a bad name
// or option is reported by the first acquisition.
func (c *Client) RWMutex(name string, opts ...Option) *RWMutex {
	return &RWMutex{
		r: c.handle(name, driver.Terms{Mode: driver.Shared, Weight: 1}, opts),
		w: c.handle(name, driver.Terms{Mode: driver.Exclusive, Weight: 1}, opts),
	}
}

// RLock waits until it may read. Under the context of a lease of the same name
// it re-enters, also under that of a writer.
func (m *RWMutex) RLock(ctx context.Context) (*Lease, error) { return m.r.acquire(ctx, false) }

// TryRLock reads now or fails with a *BusyError.
func (m *RWMutex) TryRLock(ctx context.Context) (*Lease, error) { return m.r.acquire(ctx, true) }

// Lock waits until it may write. Under the context of a reader of the same name
// it fails with ErrUpgrade.
func (m *RWMutex) Lock(ctx context.Context) (*Lease, error) { return m.w.acquire(ctx, false) }

// TryLock writes now or fails with a *BusyError.
func (m *RWMutex) TryLock(ctx context.Context) (*Lease, error) { return m.w.acquire(ctx, true) }

// Downgrade turns a writer's lease into a reader's, without a moment in which
// another writer could come in. The lease keeps its token. If Downgrade fails
// it is not known which of the two it is: only read until it is unlocked.
func (m *RWMutex) Downgrade(ctx context.Context, l *Lease) error {
	if m.r.err != nil {
		return m.r.err
	}
	fail := func(err error) error {
		return &Error{Op: "downgrade", Name: l.Name(), Engine: m.r.c.caps.Engine, Err: err}
	}
	if l.Name() != m.r.name || l.g.s.c != m.r.c {
		return fail(fmt.Errorf("the lease is not of this lock"))
	}
	claim, err := l.weaken(m.r.terms(l.base))
	if err != nil || claim == nil {
		return err
	}
	err = l.reshape(ctx, claim)
	// Granted as a reader or not known: local waiters ask the store either way.
	l.g.vacate()
	if err != nil {
		return fail(err)
	}
	return nil
}

// weaken takes the lease for a reader's before the store is asked: whatever
// becomes of the call, nobody may write under it again. It returns nil if the
// lease is a reader's already.
func (l *Lease) weaken(terms *driver.Terms) (*driver.Claim, error) {
	g := l.g
	g.s.sh.mu.Lock()
	defer g.s.sh.mu.Unlock()
	switch {
	case l.cause != nil:
		return nil, l.cause
	case g.s.c.clock.Now() >= l.deadline():
		return nil, l.overdue()
	case g.claim.Terms.Mode == driver.Shared:
		return nil, nil
	case g.leases != l || l.next != nil:
		return nil, &Error{Op: "downgrade", Name: l.Name(), Engine: g.s.c.caps.Engine,
			Err: errors.New("it was re-entered; unlock the inner leases first")}
	}
	weaker := *g.claim.Terms // its ends stay
	weaker.Mode, weaker.Weight, weaker.Limit, weaker.Record = terms.Mode, terms.Weight, terms.Limit, terms.Record
	g.claim.Terms = &weaker
	// An unlock meanwhile must bury the claim: the attempt may come after it.
	g.unsure = true
	claim := g.claim
	return &claim, nil
}

// reshape asks for the granted claim with other terms until the store answers.
func (l *Lease) reshape(ctx context.Context, claim *driver.Claim) error {
	s := l.g.s
	for failures := 1; ; failures++ {
		p := &pending{s: s, claim: *claim}
		out, _, _, err := p.attempt(ctx)
		if err == nil && out.State == driver.Granted {
			return nil
		}
		if err == nil {
			return lost(ErrBroken)
		}
		if s.gone(err); errors.Is(err, driver.ErrGone) {
			return lost(ErrEnded)
		}
		if !transient(err) && !errors.Is(err, driver.ErrForgotten) {
			return err
		}
		if ctx.Err() != nil || !sleep(ctx, timing.Backoff(failures, s.trusted()/100, s.trusted()/12, rand.Float64())) {
			return fmt.Errorf("%w: %w: %w", ErrUnavailable, ctxError(ctx), err)
		}
		if err := l.Err(); err != nil {
			return err
		}
	}
}
