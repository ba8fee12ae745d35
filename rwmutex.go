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
	sh := l.g.s.sh
	sh.mu.Lock()
	only := l.g.leases == l && l.next == nil
	mode := l.g.claim.Terms.Mode
	claim := l.g.claim
	sh.mu.Unlock()
	switch {
	case l.Err() != nil:
		return l.Err()
	case mode == driver.Shared:
		return nil
	case !only:
		return fail(errors.New("it was re-entered; unlock the inner leases first"))
	}
	claim.Terms = m.r.terms(l.base)
	if err := l.reshape(ctx, &claim); err != nil {
		return fail(err)
	}
	return nil
}

// reshape asks for the granted claim with other terms until the store answers.
func (l *Lease) reshape(ctx context.Context, claim *driver.Claim) error {
	s := l.g.s
	for failures := 1; ; failures++ {
		p := &pending{s: s, claim: *claim}
		out, _, _, err := p.attempt(ctx)
		if err == nil && out.State == driver.Granted {
			l.g.reshaped(claim.Terms)
			return nil
		}
		if err == nil {
			return lost(ErrBroken)
		}
		l.g.doubt(p)
		if s.gone(err); errors.Is(err, driver.ErrGone) {
			return lost(err)
		}
		if !transient(err) && !errors.Is(err, driver.ErrForgotten) {
			return err
		}
		if ctx.Err() != nil || !sleep(ctx, timing.Backoff(failures, s.trusted()/100, s.trusted()/12, rand.Float64())) {
			return errors.Join(ErrUnavailable, ctxError(ctx), err)
		}
		if !l.Valid() {
			return l.Err()
		}
	}
}

// doubt notes that an attempt of the grant may still be on its way.
func (g *grant) doubt(p *pending) {
	g.s.sh.mu.Lock()
	g.unsure = g.unsure || p.unsure
	g.s.sh.mu.Unlock()
}

// reshaped takes the grant out of the way of local waiters: they now ask the
// store.
func (g *grant) reshaped(terms *driver.Terms) {
	g.s.sh.mu.Lock()
	g.claim.Terms = terms
	g.s.sh.mu.Unlock()
	g.vacate()
}
