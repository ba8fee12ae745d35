// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/quorum/internal/vote"
)

// repair repairs a node in the background of a keep-alive: it opens the session there again and marks it if it
// must, puts back what the node lost, finishes what could not be withdrawn, and
// joins the node to the claims it lacks. Last, it gives up an id that a late Open could revive. One at a time.
//
// What a node has counts when the node is marked, so it is marked first. One that cannot be marked yet is given back what it
// lost all the same, for after its grace period others may be granted that.
func (l *nodeSession) repair() {
	b := l.b
	b.mu.Lock()
	if l.repairing || b.ended || b.overLocked() || b.lostAt == b.opens {
		b.mu.Unlock()
		return
	}
	l.repairing = true
	closed := l.drv == nil
	b.mu.Unlock()
	ok := true
	if closed {
		ok = l.open() == nil // it asks for the marker, too
	} else {
		_, _, _, _ = l.ready()
	}
	if ok && l.putBack() {
		l.sweep()
		if l.join(); l.replace() {
			l.join()
		}
	}
	b.mu.Lock()
	l.repairing = false
	b.mu.Unlock()
}

// batchSize is how many claims one Reclaim carries.
const batchSize = 512

// replace ends the session on the node and opens it under another id, and reports whether it did. After a data loss a session must be
// opened under the id that it had, again and again until the node answers. An Open that arrives late, when the node has
// ended the session, begins it again without its claims, and no keep-alive would find the difference. So the id is given up when the
// node is past its grace period and nothing needs it: all others have the session, and enough of them every claim.
func (l *nodeSession) replace() bool {
	b := l.b
	b.mu.Lock()
	if !l.stray || l.at != vote.Current || time.Since(l.since) < b.s.caps.MaxTTL || !b.sparesLocked(l.n) {
		b.mu.Unlock()
		return false
	}
	drv := l.drv
	l.lostLocked(false) // noted before it is so, or two nodes could be given up at once
	b.mu.Unlock()
	_ = drv.Close(b.s.bound()) // what stays ends with the TTL
	return l.open() == nil
}

// sparesLocked reports whether no claim would be lost without the node. b.mu must be held.
func (b *quorumSession) sparesLocked(n int) bool {
	for _, l := range b.links {
		if !l.freshLocked() {
			return false
		}
	}
	for g := range b.groups {
		if g.Nodes.Without(n).Len() < g.Need {
			return false
		}
	}
	return true
}

// putBack reclaims on a node that lost its data what it had granted, and with that makes
// it drop what was released. It is repeated until the node has answered.
func (l *nodeSession) putBack() bool {
	b := l.b
	b.mu.Lock()
	owed, renewal := l.at == vote.Owing, l.renewal
	var lost []*request
	for _, w := range b.requests {
		if w.unconfirmed && !w.known {
			owed = false // the core is about to reclaim them, and would find them dropped
		}
		if w.slots[l.n].Lost > 0 && w.won && !w.gone {
			lost = append(lost, w)
		}
	}
	b.mu.Unlock()
	if !owed {
		return true
	}
	for first := true; first || len(lost) > 0; first = false {
		n := min(len(lost), batchSize)
		b.mu.Lock()
		batch := l.batchLocked(lost[:n])
		b.mu.Unlock()
		r := l.reclaim(lost[:n], batch, n == len(lost))
		if r.err != nil {
			return false
		}
		b.mu.Lock()
		for i, w := range lost[:n] {
			w.putBackLocked(l, r, i)
		}
		b.mu.Unlock()
		lost = lost[n:]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.renewal == renewal {
		l.at = l.at.PutBack()
	}
	return true
}

// putBackLocked takes note of whether a node has a claim again. It counts now, or as soon as the node does: then join
// counts it. w.b.mu must be held.
func (w *request) putBackLocked(l *nodeSession, r reclaimed, i int) {
	s := &w.slots[l.n]
	if s.Busy() || s.Lost == 0 || !r.countsLocked(w, i) {
		return
	}
	var share vote.Share
	if s.Slot, share = s.OnReclaimed(r.kept[i], w.token, false); share == vote.FullShare {
		switch {
		case w.won && l.freshLocked():
			w.countLocked(true, w.counted.With(l.n))
		case w.won || w.unconfirmed: // the core may be asking for it again, which must not find that it never counted
			s.Slot = s.Suspend(true)
		}
	}
	w.stepLocked()
}

// sweepSize is how many withdrawals are repeated at once. All of them at once would
// crowd a node that is just back, and the first that is late makes it seem away again.
const sweepSize = 128

// sweep withdraws again what could not be withdrawn.
func (l *nodeSession) sweep() {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.sweepLocked()
}

// sweepLocked is sweep. l.b.mu must be held.
func (l *nodeSession) sweepLocked() {
	if l.sweeping > 0 {
		return
	}
	for _, w := range l.b.requests {
		s := &w.slots[l.n]
		if w.round == nil && !w.won && !w.unconfirmed {
			s.Slot = s.Sweep()
		}
		before := s.Call
		if w.withdrawAtLocked(l.n); s.Call == vote.Withdrawing && before != vote.Withdrawing {
			s.swept = true
			l.sweeping++
		}
		if l.sweeping == sweepSize {
			return
		}
	}
}

// sweptOneLocked goes on when all of a batch of repeated withdrawals are over. After an error
// the rest waits until the node is repaired again. l.b.mu must be held.
func (l *nodeSession) sweptOneLocked(s *slot, err error) {
	if !s.swept {
		return
	}
	s.swept = false
	if l.sweeping--; l.sweeping == 0 && err == nil {
		l.sweepLocked()
	}
}

// join counts this node for the claims that it has again, and puts those that have won on it if it lacks them, so that
// another node may fail. It skips claims with a MaxHold that it lacks: on a node that joins late they would end late. A node
// that is not marked is asked for none.
func (l *nodeSession) join() {
	b := l.b
	b.mu.Lock()
	var missing []*request
	if l.marked && b.incompleteLocked() {
		for _, w := range b.requests {
			if !w.won || w.gone || w.counted.Has(l.n) || w.counted.Len() < w.need {
				continue
			}
			switch s := &w.slots[l.n]; {
			case s.Regains() && l.freshLocked():
				w.countLocked(true, w.counted.With(l.n))
			case s.Regains(): // with a later keep-alive; the answer to an attempt would have it forgotten
			case w.claim.Terms.MaxHold == 0:
				missing = append(missing, w)
			}
		}
	}
	b.mu.Unlock()
	for _, w := range missing {
		if !l.joinOne(w) {
			return
		}
	}
}

// incompleteLocked reports whether a claim lacks a node. b.mu must be held.
func (b *quorumSession) incompleteLocked() bool {
	for g := range b.groups {
		if g.Nodes != b.all() {
			return true
		}
	}
	return false
}

// joinOne joins the node to one claim, and reports whether it is worth going on.
func (l *nodeSession) joinOne(w *request) bool {
	token, ok := l.askFor(w, func() driver.Token { return w.token }, true)
	if !ok {
		return false
	}
	l.b.mu.Lock()
	if s := &w.slots[l.n]; token == w.token && s.Standing == vote.Granted && s.Token == token {
		w.joinedLocked(l)
	}
	others := w.counted
	need := w.need
	higher := w.won && !w.gone && !w.counted.Has(l.n) && token > w.token
	l.b.mu.Unlock()
	if !higher {
		return true
	}
	// It granted with a higher token, for other claims raised its counter: another claim that is
	// newer may have been granted there and gone. It counts when enough nodes that
	// count have been raised above that: a claim that had won by then is met there.
	var raised vote.Set
	worth := l.b.s.health.worth(need) // one that does not answer would cost NodeTimeout for each claim
	for _, o := range l.b.links {
		if !others.Has(o.n) || !worth.Has(o.n) || !o.isMarked() { // and one without the marker two calls
			continue
		}
		before := driver.Token(0)
		got, ok := o.askFor(w, func() driver.Token {
			before = w.slots[o.n].Token
			return token + driver.TokenStep
		}, false)
		if ok && got != 0 && got == before {
			raised = raised.With(o.n)
		}
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	s := &w.slots[l.n]
	if (raised&w.counted).Len() >= need && s.Standing == vote.Granted && s.Token == token && !s.Busy() {
		w.joinedLocked(l)
	}
	return true
}

// joinedLocked counts the node. w.b.mu must be held.
func (w *request) joinedLocked(l *nodeSession) {
	if w.won && !w.gone && !w.counted.Has(l.n) && l.freshLocked() {
		w.countLocked(true, w.counted.With(l.n))
	}
}

// askFor attempts a claim that has won on the node, without the queue, with a floor,
// and returns the token it is granted with there, 0 if it is not. ok is not set if
// the node did not answer. lift is set for a node that is joined: an attempt in flight there needs no second one, for
// its answer counts. A node that is raised is asked behind the attempt.
func (l *nodeSession) askFor(w *request, floor func() driver.Token, lift bool) (token driver.Token, ok bool) {
	b := l.b
	b.mu.Lock()
	s := &w.slots[l.n]
	if !lift {
		w.settleLocked(l.n)
	}
	if s.Busy() || s.Leaving() || !w.won || w.gone || s.Try == tries-1 {
		b.mu.Unlock()
		return 0, true
	}
	c := w.claim
	c.Seq, c.Queue, c.Floor, c.Lift = nodeSeq(w.seq, s.Try), false, floor(), lift && s.Standing == vote.Granted
	s.Slot, _ = s.Ask()
	b.mu.Unlock()
	var out driver.Outcome
	drv, renewal, rest, err := l.ready()
	sent := err == nil && rest == 0
	if sent {
		err = l.call(renewal, func(ctx context.Context) (err error) {
			out, err = drv.Attempt(ctx, &c)
			return err
		})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	w.repliedLocked(l, reply{out, err, rest, sent}, l.renewal == renewal)
	w.stepLocked()
	if s.Standing == vote.Granted {
		token = s.Token
	}
	return token, err == nil
}

// settleLocked waits until no attempt at a claim that is held is in flight on the node. Nodes that come back together
// are joined at the same time, and each needs the same others raised: one that skipped those that are just asked for
// another would stay out until the next keep-alive, and for good if others fail before that. w.b.mu must be held; it is
// unlocked while it waits.
func (w *request) settleLocked(n int) {
	for s := &w.slots[n]; s.Busy() && !s.Leaving() && w.won && !w.gone; {
		changed := w.changeLocked()
		w.b.mu.Unlock()
		<-changed
		w.b.mu.Lock()
	}
}
