// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
	"github.com/fencelock/fencelock/internal/timing"
)

// errSpent says that a fixed lease had run out before its grant was known.
var errSpent = errors.New("granted too late for its fixed end")

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
		rest := timing.Trust(out.Remaining, d.c.opts.Drift, 0)
		if g.ends = sent.Add(rest); now >= g.ends {
			return nil, errSpent
		}
	}
	g.attach()
	l := g.newLease(ctx, g.nextToken())
	ln := d.ln
	if ln == nil { // a try: it takes the line only if that is nobody's
		if ln = d.sh.line(d.name); d.terms.Mode == driver.Exclusive && d.terms.Reentry == "" && ln.idle() {
			ln.exclusive = g
		}
		d.sh.tidy(ln)
		return l, nil
	}
	ln.pending = nil
	if d.terms.Mode == driver.Exclusive {
		ln.exclusive = g
		ln.driven = false
		return l, nil
	}
	d.readTogether(ln, g)
	d.sh.baton(ln)
	return l, nil
}

// readTogether lets the readers behind a reader share its grant, each with a
// token of its own. Only those who came before the grant: later ones must queue
// in the store, or they would overtake a writer who waits there. Wants sh.mu.
func (d *drive) readTogether(ln *line, g *grant) {
	if d.terms.Limit > 0 || d.terms.MaxHold > 0 || d.terms.MinHold > 0 {
		return
	}
	for ln.first != nil && sameWish(ln.first.terms, d.terms) && g.index < driver.TokenStep-1 {
		ln.pop().ready <- turn{lease: g.newLease(context.Background(), g.nextToken())}
	}
}

// release decides what becomes of the grant after a lease on it was unlocked,
// and unlocks the shard's mutex, which it wants. It returns what is left to do
// with the store, nil if nothing is.
func (g *grant) release(rest bool, keep time.Duration) func(context.Context) error {
	sh, s := g.s.sh, g.s
	ln := sh.lines[g.claim.Name]
	if rest || g.gone || !s.open {
		sh.mu.Unlock()
		return nil
	}
	if l := g.pass(ln, keep); l != nil {
		sh.mu.Unlock()
		if s.c.watched() {
			l.emit(LeasePassed, nil)
		}
		return nil
	}
	g.detach()
	owner := ln != nil && ln.exclusive == g
	if owner {
		// Until the store has answered the line is ours: the next attempt would
		// only find our own claim in its way.
		ln.exclusive = nil
		ln.driven = true
	}
	s.users++
	sh.mu.Unlock()
	return func(ctx context.Context) error {
		err := s.giveBack(ctx, g, keep)
		s.leave()
		if owner {
			sh.mu.Lock()
			stale := sh.baton(ln)
			sh.mu.Unlock()
			stale.withdraw()
		}
		return err
	}
}

// pass hands the grant to the next local waiter, without a round trip and with
// a fresh token: a bounded number of times and for a bounded time, so that other
// processes get their turn. It returns nil if the grant must go back to the
// store. Wants sh.mu.
func (g *grant) pass(ln *line, keep time.Duration) *Lease {
	if keep > 0 || ln == nil || ln.exclusive != g || ln.first == nil {
		return nil
	}
	w, opts, t := ln.first, &g.s.c.opts, g.claim.Terms
	now := g.s.c.clock.Now()
	if int(g.passes) >= opts.LocalHandovers || g.index == driver.TokenStep-1 ||
		t.MinHold > 0 || t.MaxHold > 0 || t.Reentry != "" || !sameWish(t, w.terms) ||
		now.Sub(g.granted) >= opts.LocalHandoverFor || now >= clock.Instant(g.s.deadline.Load()) {
		return nil
	}
	g.passes++
	ln.pop()
	l := g.newLease(context.Background(), g.nextToken())
	w.ready <- turn{lease: l}
	return l
}

// giveBack withdraws a grant on behalf of Unlock.
func (s *session) giveBack(ctx context.Context, g *grant, keep time.Duration) error {
	w := driver.Withdrawal{Seq: g.claim.Seq, Name: g.claim.Name, KeepFor: keep, Bury: g.unsure}
	found, err := s.callWithdraw(ctx, w)
	switch {
	case err == nil && (found == driver.WasGranted || g.unsure):
		return nil
	case err == nil:
		// We trusted it to this moment and the store had it no longer: somebody
		// broke it.
		return &Error{Op: "unlock", Name: w.Name, Engine: s.c.caps.Engine, Err: lost(ErrBroken)}
	case errors.Is(err, driver.ErrGone):
		s.end(lost(err))
		return &Error{Op: "unlock", Name: w.Name, Engine: s.c.caps.Engine, Err: lost(err)}
	}
	s.sh.mu.Lock()
	s.sweepUp(w)
	s.sh.mu.Unlock()
	if errors.Is(err, driver.ErrForgotten) {
		s.resumeSoon()
	}
	return &Error{Op: "unlock", Name: w.Name, Engine: s.c.caps.Engine, Err: errors.Join(ErrUnavailable, err),
		Hint: "it is repeated in the background and ends with the session at the latest"}
}
