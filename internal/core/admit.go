// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
	"github.com/fencelock/fencelock/internal/timing"
)

// errTooLate: the fixed end of a lease had come before its grant was known.
var errTooLate = errors.New("granted too late for its end: MaxHold is shorter than the store takes to answer")

// maxLateGrants is how often that may happen before the caller gets the error.
const maxLateGrants = 3

// admit turns a granted answer into a lease. Without a lease the error says
// what to do: ErrGone, the session has ended; errTooLate, withdraw and ask again;
// ErrReset, the grant is from an earlier incarnation, so attempt again.
func (a *acquisition) admit(ctx context.Context, p *sentClaim, ans *answer) (*Lease, error) {
	now := a.c.clock.Recent()
	if now >= clock.Instant(p.s.deadline.Load()) {
		p.s.end(lost(ErrUnrenewed)) // a grant that is learned too late does not count
		return nil, driver.ErrGone
	}
	l, err := a.install(ctx, p, ans, now)
	if l == nil {
		return nil, err
	}
	announced := false
	defer func() {
		for _, r := range a.together { // what is left of them after a panic
			r.lease.announceAfterPanic()
			r.w.ready <- turn{lease: r.lease}
		}
		a.together = nil
		if !announced {
			l.Abandon() // the caller will never have it
		}
	}()
	l.announce(LeaseGranted, now.Sub(a.began))
	for len(a.together) > 0 {
		r := a.together[0]
		r.lease.announce(LeaseHandedOff, 0)
		a.together = a.together[1:]
		r.w.ready <- turn{lease: r.lease}
	}
	announced = true
	return l, nil
}

// reader is a waiter that shares the grant of another, and gets this lease.
type reader struct {
	w     *waiter
	lease *Lease
}

// install makes the grant one of the session's, and its lease.
func (a *acquisition) install(ctx context.Context, p *sentClaim, ans *answer, now clock.Instant) (*Lease, error) {
	s := p.s
	a.sh.mu.Lock()
	defer a.sh.mu.Unlock()
	if !s.state.live() {
		return nil, driver.ErrGone
	}
	if ans.generation != s.generation {
		return nil, driver.ErrReset
	}
	g := &grant{s: s, claim: p.claim, token: ans.Token, granted: now, generation: s.generation, unsure: p.unsure}
	if a.terms.MaxHold > 0 {
		// From the send, as every deadline; drift counts here too.
		rest := timing.Trust(ans.Remaining, a.c.opts.Drift, g.margin(a.c.opts.Margin))
		g.fixedEnd = ans.sent.Add(rest)
		if now >= g.fixedEnd {
			return nil, errTooLate
		}
	}
	g.attachLocked()
	a.admitted = true
	a.endWaitLocked() // before another has a lease on the grant: that one is not waited for
	if w := s.watches[g.claim.Seq]; w != nil {
		w.g = g
		if w.wanted {
			a.sh.cooling.begin(a.name, false)
		}
	}
	l := g.newLeaseLocked(ctx, g.nextTokenLocked(), now)
	q := a.q
	if q == nil { // a try: it takes the queue only if that is idle
		q = a.sh.queueLocked(a.name)
		if a.terms.Mode == driver.Exclusive && a.terms.Reentry == "" && q.idle() {
			q.hold(g)
		}
		a.sh.tidyLocked(q)
		return l, nil
	}
	q.sent = nil
	if a.terms.Mode == driver.Exclusive {
		q.hold(g)
		return l, nil
	}
	a.together = shareLocked(q, g)
	a.sh.handOffLocked(q)
	return l, nil
}

// shareLocked lets the readers behind a reader share its grant, each with its own
// token. Only those who came before the grant: later ones must queue in the
// store, or they would overtake a writer who waits there. sh.mu must be held.
func shareLocked(q *queue, g *grant) (readers []reader) {
	t := g.claim.Terms
	if t.Limit > 0 || t.MaxHold > 0 || t.MinHold > 0 {
		return nil
	}
	for q.first != nil && sameTerms(q.first.terms, t) && g.index < driver.TokenStep-1 {
		l := g.newLeaseLocked(context.Background(), g.nextTokenLocked(), g.granted)
		readers = append(readers, reader{q.pop(), l})
	}
	return readers
}
