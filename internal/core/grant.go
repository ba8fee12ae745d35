// SPDX-License-Identifier: Apache-2.0

package core

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
	"github.com/fencelock/fencelock/internal/timing"
)

// grant is a claim that the store granted to this client. Leases stand on it:
// one, or several that re-entered or read together. Guarded by the
// shard's mutex.
type grant struct {
	s      *session
	claim  driver.Claim
	token  driver.Token // the store's; leases add an index
	q      *queue       // the queue whose exclusive grant it is, or nil
	leases *Lease
	state  grantState
	// prev and next link the grants of the session.
	prev, next *grant
	granted    clock.Instant
	fixedEnd   clock.Instant // the end by MaxHold, or zero
	lingerEnd  clock.Instant // when it must not be idle any more, or zero before it first is
	recalled   clock.Instant // when it was given back although idle, or zero
	nextCheck  clock.Instant // when the watch must check the fixed end, or that of lingering; zero after the latter
	keepFor    time.Duration // the longest time that a lease on it asked for when unlocked
	heapIndex  int32         // index in the session's deadlines
	attempts   int32         // downgrades in flight
	idleIndex  uint16        // index among the idle grants of the session
	index      uint8         // of the next token: how many leases have one
	// unsure is set when an attempt may still be on its way: its withdrawal leaves a
	// tombstone.
	unsure bool
	// downgradeUnconfirmed is set from a downgrade here until the store confirms it.
	downgradeUnconfirmed bool
	// generation is that of the session when the store granted it, or gave it back last.
	generation uint64
	// notReclaimed is set when the store was reset and did not give the grant back.
	notReclaimed bool
	// withdrawalQueued is set while its withdrawal is in the cleanup's queue, and not
	// in flight.
	withdrawalQueued bool
}

// grantState is how far a grant is between the store's grant and its end.
//
//	held ──▶ expired ──▶ leaving ──▶ ended
//	 ▲ └───────────────────▲  ▲
//	 └──▶ lingering ──────────┘
//
// A grant that is being given back is state too: a store that was reset in between
// must be asked for it again, or the mark it was to leave is lost.
type grantState uint8

const (
	// grantHeld: in the session's list.
	grantHeld grantState = iota
	// grantExpired: in the list, past its fixed end; its holders were notified, and it
	// is withdrawn a margin later.
	grantExpired
	// grantLingering: in the list, without a lease; the next acquisition of the client
	// may take it again.
	grantLingering
	// grantLeaving: given back, but the store has not acknowledged it.
	grantLeaving
	// grantEnded: the store acknowledged it.
	grantEnded
)

// attached reports whether the grant is in its session's list.
func (st grantState) attached() bool { return st <= grantLingering }

// withdrawalLocked returns how the grant is given back. sh.mu must be held.
func (g *grant) withdrawalLocked() driver.Withdrawal {
	return driver.Withdrawal{Seq: g.claim.Seq, Name: g.claim.Name, KeepFor: g.keepFor, Tombstone: g.unsure || g.attempts > 0}
}

// endedLocked takes the store's acknowledgement of the withdrawal. sh.mu must be held.
func (g *grant) endedLocked() {
	g.state = grantEnded
	delete(g.s.leaving, g)
}

// attachLocked puts the grant into its session. sh.mu must be held.
func (g *grant) attachLocked() {
	g.next = g.s.grants
	if g.next != nil {
		g.next.prev = g
	}
	g.s.grants = g
	if g.fixedEnd != 0 {
		g.nextCheck = g.fixedEnd
		heap.Push(&g.s.deadlines, g)
		g.s.timer.Reset(g.s.untilCheckLocked(g.s.c.clock.Now()))
	}
}

// detachLocked takes it out and reports whether it was in. sh.mu must be held.
func (g *grant) detachLocked() bool {
	if !g.state.attached() || !g.s.state.live() {
		return false
	}
	if g.state == grantLingering {
		g.notIdleLocked() // the session was used last when the grant became idle
	} else {
		g.s.idleSince = g.s.c.clock.Sent()
	}
	g.state = grantLeaving
	g.unwatchLocked()
	if g.keepFor > 0 {
		if g.s.leaving == nil {
			g.s.leaving = map[*grant]struct{}{}
		}
		g.s.leaving[g] = struct{}{}
	}
	if g.prev == nil {
		g.s.grants = g.next
	} else {
		g.prev.next = g.next
	}
	if g.next != nil {
		g.next.prev = g.prev
	}
	g.prev, g.next = nil, nil // a lease that is kept must not keep the others
	if g.nextCheck != 0 && int(g.heapIndex) < len(g.s.deadlines) && g.s.deadlines[g.heapIndex] == g {
		heap.Remove(&g.s.deadlines, int(g.heapIndex))
	}
	return true
}

// nextTokenLocked returns the token of the next lease on the grant. sh.mu must be held.
func (g *grant) nextTokenLocked() driver.Token {
	t := g.token + driver.Token(g.index)
	g.index++
	if g.s.c.caps.Fencing == driver.NoFencing {
		return 0 // an index alone would look like a token to a guard
	}
	return t
}

// notify ends the context of every lease with the cause, and returns them after
// those notified before: events come when all are notified. A lease whose beginning
// has not been announced is left out: its announcer adds the loss.
func (g *grant) notify(cause error, notified []*Lease) []*Lease {
	watched := g.s.c.watched()
	g.s.sh.mu.Lock()
	leases := g.leases
	g.leases = nil
	for l := leases; l != nil; l = l.next {
		l.state.set(leaseLost)
		l.cause = cause
		if watched && l.announced {
			notified = append(notified, l)
		}
	}
	g.s.sh.mu.Unlock()
	for l := leases; l != nil; {
		next := l.next
		l.prev, l.next = nil, nil
		l.cancelContext(cause)
		l = next
	}
	return notified
}

// freeQueue lets the next waiter acquire after the grant has ended without an unlock.
func (g *grant) freeQueue() {
	sh := g.s.sh
	sh.mu.Lock()
	var stale *sentClaim
	if q := g.q; q != nil && q.exclusive == g {
		stale = sh.handOffLocked(q)
	}
	sh.mu.Unlock()
	stale.withdraw()
}

// loseAll ends grants whose session lives on: at their fixed end, broken, or not
// reclaimed. The holders of notify are notified first, then the grants of remove are
// withdrawn after a time, which may let another client in, and events come last.
func loseAll(notify, remove []*grant, cause error, after time.Duration) {
	var leases []*Lease
	for _, g := range notify {
		leases = g.notify(cause, leases)
	}
	for _, g := range remove {
		g.s.sh.mu.Lock()
		ok := g.detachLocked()
		switch {
		case ok && after > 0:
			g.queueLaterWithdrawalLocked(after)
		case ok:
			g.queueWithdrawalLocked()
		}
		g.s.sh.mu.Unlock()
		if ok {
			g.freeQueue()
		}
	}
	for _, l := range leases {
		l.emit(LeaseLost, cause)
	}
}

// margin is what a lease with a MaxHold has between the notice and its end: as much
// as any, but at most a tenth of its length.
func (g *grant) margin(most time.Duration) time.Duration { return min(most, g.claim.Terms.MaxHold/10) }

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
		p.s.end(p.s.c.lost(Unrenewed)) // a grant that is learned too late does not count
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
			a.sh.lingerBackoff.begin(a.name, false)
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
