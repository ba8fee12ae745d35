// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
)

// release is what is left to do after the last lease on a grant was unlocked:
// either hand the grant to a local waiter or give it back to the store.
type release struct {
	g     *grant
	next  *waiter // gets lease, if not nil
	lease *Lease
	ln    *line // nil, or the line to hand on once the store has answered
	what  driver.Withdrawal
}

// release decides what becomes of the grant: nothing if it has ended already.
// Wants sh.mu.
func (g *grant) release(keep time.Duration, now clock.Instant) release {
	if g.gone || !g.s.open {
		return release{}
	}
	ln := g.ln
	if keep == 0 && ln != nil && g.mayPass(ln, now) {
		g.passes++
		return release{g: g, next: ln.pop(), lease: g.newLease(context.Background(), g.nextToken(), now)}
	}
	g.detach()
	g.s.users++
	r := release{g: g, what: driver.Withdrawal{Seq: g.claim.Seq, Name: g.claim.Name, KeepFor: keep, Bury: g.unsure}}
	g.parting = &r.what
	if ln != nil && ln.exclusive == g {
		// Until the store has answered the line is ours: the next attempt would
		// only find our own claim in its way.
		ln.exclusive = nil
		ln.driven = true
		r.ln = ln
	}
	return r
}

// mayPass says whether the grant may go to the next local waiter, without a
// round trip and with a fresh token: a bounded number of times and for a bounded
// time, so that other processes get their turn. Wants sh.mu.
func (g *grant) mayPass(ln *line, now clock.Instant) bool {
	t, opts := g.claim.Terms, &g.s.c.opts
	return ln.exclusive == g && ln.first != nil && sameWish(t, ln.first.terms) &&
		int(g.passes) < opts.LocalHandovers && now.Sub(g.granted) < opts.LocalHandoverFor &&
		t.MinHold == 0 && t.MaxHold == 0 && t.Reentry == ""
}

// finish does it. A zero r is fine.
func (r *release) finish(ctx context.Context) error {
	if r.g == nil {
		return nil
	}
	if r.next != nil {
		r.next.ready <- turn{lease: r.lease}
		r.lease.emit(LeasePassed, nil)
		return nil
	}
	s, sh := r.g.s, r.g.s.sh
	err := s.giveBack(ctx, r.what)
	s.leave()
	if r.ln != nil {
		sh.mu.Lock()
		stale := sh.baton(r.ln)
		sh.mu.Unlock()
		stale.withdraw()
	}
	return err
}

// giveBack withdraws a grant on behalf of Unlock.
func (s *session) giveBack(ctx context.Context, w driver.Withdrawal) error {
	found, err := s.callWithdraw(ctx, w)
	switch {
	case err == nil && found != driver.WasBroken:
		// Absent is fine: we trusted it to this moment, so the withdrawal was
		// only sent or executed twice.
		return nil
	case err == nil:
		return &Error{Op: "unlock", Name: w.Name, Engine: s.c.caps.Engine, Err: lost(ErrBroken)}
	case errors.Is(err, driver.ErrGone) && errors.Is(context.Cause(s.ctx), ErrClosed):
		return nil // Close has given it back
	case errors.Is(err, driver.ErrGone):
		s.gone(err)
		return &Error{Op: "unlock", Name: w.Name, Engine: s.c.caps.Engine, Err: lost(ErrEnded)}
	}
	s.sh.mu.Lock()
	s.sweepUp(w)
	s.sh.mu.Unlock()
	if errors.Is(err, driver.ErrForgotten) {
		s.resumeSoon()
	}
	err = fmt.Errorf("%w, but not confirmed: %w: %w", ErrReleased, ErrUnavailable, err)
	return &Error{Op: "unlock", Name: w.Name, Engine: s.c.caps.Engine, Err: err,
		Hint: "it is repeated in the background and ends with the session at the latest"}
}
