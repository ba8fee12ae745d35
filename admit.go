// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"

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
