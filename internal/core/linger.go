// SPDX-License-Identifier: Apache-2.0

package core

import (
	"container/heap"
	"context"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
)

// maxLingering bounds the idle grants of a session: a scan over many names must not keep
// all of them.
const maxLingering = 1024

// mayLingerLocked reports whether the grant stays with the client after its last unlock:
// no caller waits for it, and neither the grant nor its session is in doubt. All leases on
// the grant together have Terms.Linger, counted from the first unlock, so that a notice
// that is lost costs a waiter no more than that. sh.mu must be held.
func (g *grant) mayLingerLocked(now clock.Instant) bool {
	t, s, q := g.claim.Terms, g.s, g.q
	return t.Linger > 0 && t.Mode == driver.Exclusive && g.state == grantHeld &&
		q != nil && q.exclusive == g && q.first == nil && !s.sh.closed &&
		s.steadyLocked() && len(s.idle) < maxLingering && !g.unsure &&
		g.tokenLeft() && !g.wantedLocked() && (g.lingerEnd == 0 || g.nextCheck != 0 && now < g.lingerEnd)
}

// lingerOrRelease makes the grant idle, now that its last holder is notified: the next one
// may come at once. If a caller came in between, the grant is handed off or given back.
func (r *release) lingerOrRelease(ctx context.Context) error {
	g, sh := r.g, r.g.s.sh
	sh.mu.Lock()
	g.s.users--
	now := r.now // however long hooks took: it ends earlier, and taking it again reads the clock
	if g.mayLingerLocked(now) {
		g.lingerLocked(now)
		sh.mu.Unlock()
		return nil
	}
	g.s.idleSince = now
	*r = g.releaseLocked(r.by, now) // so that a panic abandons this one
	sh.mu.Unlock()
	return r.finish(ctx)
}

// giveUpLingering gives the grant back: a hook panicked before it was idle.
func (g *grant) giveUpLingering() {
	g.s.sh.mu.Lock()
	g.s.leftLocked()
	ok := g.detachLocked()
	if ok {
		g.queueWithdrawalLocked()
	}
	g.s.sh.mu.Unlock()
	if ok {
		g.freeQueue()
	}
}

// lingerLocked makes the grant idle. sh.mu must be held.
func (g *grant) lingerLocked(now clock.Instant) {
	s := g.s
	g.state, g.q.state = grantLingering, queueLingering
	g.idleIndex = uint16(len(s.idle))
	s.idle = append(s.idle, g)
	s.idleSince = now
	if g.lingerEnd == 0 {
		g.lingerEnd = now.Add(g.claim.Terms.Linger)
		g.nextCheck = g.lingerEnd
		heap.Push(&s.deadlines, g)
		s.timer.Reset(s.untilCheckLocked(s.c.clock.Now()))
	}
}

// relockLocked returns a lease on an idle grant, with a fresh token and without a round
// trip, or nil if the grant must be given back. A suspend may lie between the unlock and
// now, so now must count it: that of clock.Sent does not. sh.mu must be held.
func (g *grant) relockLocked(ctx context.Context, terms *driver.Terms, now clock.Instant) *Lease {
	s := g.s
	if !sameTerms(g.claim.Terms, terms) || !s.steadyLocked() || now >= clock.Instant(s.deadline.Load()) ||
		now >= g.lingerEnd || !g.tokenLeft() {
		return nil
	}
	g.state = grantHeld
	g.notIdleLocked()
	g.q.hold(g)
	return g.newLeaseLocked(ctx, g.nextTokenLocked(), now)
}

// recallLocked gives an idle grant back. Its withdrawal is queued, and the name is free for
// the next acquisition at once: an attempt that overtakes the withdrawal is queued behind
// it. sh.mu must be held.
func (g *grant) recallLocked() {
	if g.state != grantLingering {
		return
	}
	if g.detachLocked() { // or it ends with its session
		g.recalled = max(g.s.c.clock.Sent(), 1) // zero would mean that it was not
		g.queueWithdrawalLocked()
	}
	if q := g.q; q.exclusive == g {
		q.state, q.exclusive = queueIdle, nil // no caller waits for an idle grant
		g.s.sh.tidyLocked(q)
	}
}

// recallAllLocked gives every idle grant back: the session is in doubt, and an idle grant is
// not worth being reclaimed. sh.mu must be held.
func (s *session) recallAllLocked() {
	for i := len(s.idle) - 1; i >= 0; i-- { // from the end: each is taken out
		s.idle[i].recallLocked()
	}
}

// notIdleLocked takes the grant out of the idle ones of its session. These are kept apart from the
// other grants, of which there may be a million. sh.mu must be held.
func (g *grant) notIdleLocked() {
	s, last := g.s, len(g.s.idle)-1
	s.idle[g.idleIndex] = s.idle[last]
	s.idle[g.idleIndex].idleIndex = g.idleIndex
	s.idle[last] = nil
	s.idle = s.idle[:last]
}

// doubt notes that a renewal failed. Nothing lingers until one succeeds.
func (s *session) doubt() {
	s.sh.mu.Lock()
	defer s.sh.mu.Unlock()
	s.doubtful = true
	s.recallAllLocked()
}

// steadyLocked reports whether the session is open and its last renewal succeeded. sh.mu
// must be held.
func (s *session) steadyLocked() bool { return s.state == sessionOpen && !s.doubtful }

// unusedLocked reports whether the session has no grants but idle ones, of which there are few.
// sh.mu must be held.
func (s *session) unusedLocked() bool {
	for g := s.grants; g != nil; g = g.next {
		if g.state != grantLingering {
			return false
		}
	}
	return true
}

// wantedLocked reports whether the store notified that a claim waits behind the grant.
// sh.mu must be held.
func (g *grant) wantedLocked() bool {
	w := g.s.watches[g.claim.Seq]
	return w != nil && w.wanted
}

// tokenLeft reports whether the grant has a token for another lease: the index of the next
// one begins again at 0 when all are used.
func (g *grant) tokenLeft() bool { return g.index != 0 }

// relockLocked takes the lock of a name that lingers in this client, or gives the idle
// grant back. A nil lease means that the acquisition must call the store. sh.mu must be
// held.
func (sh *Shard) relockLocked(ctx context.Context, name string, terms *driver.Terms) *Lease {
	q := sh.queues[name]
	if q == nil || q.state != queueLingering {
		return nil
	}
	l := q.exclusive.relockLocked(ctx, terms, sh.c.clock.Recent())
	if l == nil {
		q.exclusive.recallLocked()
	}
	return l
}

// announceRelock emits the event of the lease's beginning and returns the lease.
func (l *Lease) announceRelock() *Lease {
	announced := false
	defer func() {
		if !announced {
			l.Abandon() // a hook panicked: the caller will never have it
		}
	}()
	l.announce(LeaseHandedOff, 0)
	announced = true
	return l
}
