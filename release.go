// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
	"github.com/fencelock/fencelock/internal/timing"
)

// errSpent says that a fixed lease had run out before its grant was known.
var errSpent = errors.New("granted too late for its end: FixedLease or MaxHold is shorter than the store takes to answer")

// maxSpent is how often that may happen before the caller is told.
const maxSpent = 3

// admit turns a granted outcome into a lease. Without a lease the error says
// what to do: ErrGone, the session has ended; errSpent, withdraw and wish anew;
// ErrForgotten, the grant is from an earlier incarnation, so attempt again.
func (d *drive) admit(ctx context.Context, p *pending, out driver.Outcome, gen uint64, sent clock.Instant) (*Lease, error) {
	now := d.c.clock.Now()
	if now >= clock.Instant(p.s.deadline.Load()) {
		p.s.end(lost(ErrUnrenewed)) // a grant learnt of too late is none
		return nil, driver.ErrGone
	}
	l, err := d.settleIn(ctx, p, out, gen, sent, now)
	if l != nil && d.c.watched() {
		d.c.emit(Event{Kind: LeaseGranted, Shard: d.sh.id, Session: p.s.id, Name: d.name, Token: l.token, Took: now.Sub(d.began)})
		for _, other := range d.together {
			other.emit(LeasePassed, nil)
		}
	}
	return l, err
}

func (d *drive) settleIn(ctx context.Context, p *pending, out driver.Outcome, gen uint64, sent, now clock.Instant) (*Lease, error) {
	s := p.s
	d.sh.mu.Lock()
	defer d.sh.mu.Unlock()
	if !s.open {
		return nil, driver.ErrGone
	}
	if gen != s.gen {
		return nil, driver.ErrForgotten
	}
	g := &grant{s: s, claim: p.claim, token: out.Token, granted: now, unsure: p.unsure}
	if d.terms.MaxHold > 0 {
		// From the send, as every deadline; drift counts here too.
		rest := timing.Trust(out.Remaining, d.c.opts.Drift, g.margin(d.c.opts.Margin))
		if g.ends = sent.Add(rest); now >= g.ends {
			return nil, errSpent
		}
	}
	g.attach()
	l := g.newLease(ctx, g.nextToken(), now)
	ln := d.ln
	if ln == nil { // a try: it takes the line only if that is nobody's
		if ln = d.sh.line(d.name); d.terms.Mode == driver.Exclusive && d.terms.Reentry == "" && ln.idle() {
			ln.exclusive, g.ln = g, ln
		}
		d.sh.tidy(ln)
		return l, nil
	}
	ln.pending = nil
	if d.terms.Mode == driver.Exclusive {
		ln.exclusive, g.ln = g, ln
		ln.driven = false
		return l, nil
	}
	d.together = readTogether(ln, g)
	d.sh.baton(ln)
	return l, nil
}

// readTogether lets the readers behind a reader share its grant, each with a
// token of its own. Only those who came before the grant: later ones must queue
// in the store, or they would overtake a writer who waits there. Wants sh.mu.
func readTogether(ln *line, g *grant) (leases []*Lease) {
	t := g.claim.Terms
	if t.Limit > 0 || t.MaxHold > 0 || t.MinHold > 0 {
		return nil
	}
	for ln.first != nil && sameWish(ln.first.terms, t) && g.index < driver.TokenStep-1 {
		l := g.newLease(context.Background(), g.nextToken(), g.granted)
		ln.pop().ready <- turn{lease: l}
		leases = append(leases, l)
	}
	return leases
}

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
