// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/quorum/internal/vote"
)

// tend sees to a node behind a keep-alive: it opens the session there again if it
// must, puts back what the node forgot, finishes what could not be withdrawn, and
// joins the node to the claims it lacks. One at a time.
func (l *link) tend() {
	b := l.b
	b.mu.Lock()
	if l.tending || b.ended || b.closed || b.lostAt == b.opens {
		b.mu.Unlock()
		return
	}
	l.tending = true
	closed := l.drv == nil
	b.mu.Unlock()
	ok := true
	if closed {
		ok = l.open() == nil && l.putBack()
	}
	if ok {
		l.sweep()
		l.join()
	}
	b.mu.Lock()
	l.tending = false
	b.mu.Unlock()
}

// batchSize is how many claims one Reclaim carries.
const batchSize = 512

// putBack reclaims on a node that forgot what it had granted.
func (l *link) putBack() bool {
	b := l.b
	b.mu.Lock()
	var lost []*wish
	for _, w := range b.wishes {
		if w.slots[l.n].was > 0 && w.won && !w.gone {
			lost = append(lost, w)
		}
	}
	b.mu.Unlock()
	for first := true; first || len(lost) > 0; first = false {
		n := min(len(lost), batchSize)
		b.mu.Lock()
		batch := l.batch(lost[:n])
		b.mu.Unlock()
		r := l.reclaim(batch, n == len(lost))
		if r.err != nil {
			return false
		}
		b.mu.Lock()
		for i, w := range lost[:n] {
			w.returned(l, r, i)
		}
		b.mu.Unlock()
		lost = lost[n:]
	}
	return true
}

// returned takes note of whether a node has a claim again. Wants mu.
func (w *wish) returned(l *link, r reclaimed, i int) {
	s := &w.slots[l.n]
	if l.life != r.life || s.busy || s.was == 0 {
		return
	}
	if r.kept[i] {
		s.state, s.token = granted, s.was
		if s.counted && w.won && l.fresh() {
			w.count(true, w.counted.With(l.n))
		}
	}
	s.was, s.counted = 0, false
	w.step()
}

// sweep withdraws again what could not be withdrawn.
func (l *link) sweep() {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	for _, w := range l.b.wishes {
		s := &w.slots[l.n]
		if s.unsure && !s.busy && w.round == nil && !w.won {
			s.leaving = true
		}
		w.withdrawAt(l.n)
	}
}

// join puts the claims that have won on this node if it lacks them, so that the
// next node may fail. Those with an end of their own are left alone: on a node
// that joins late they would end late.
func (l *link) join() {
	b := l.b
	b.mu.Lock()
	var missing []*wish
	for g := range b.groups {
		if g.Nodes != b.all() {
			for _, w := range b.wishes {
				if w.won && !w.gone && !w.counted.Has(l.n) && w.counted.Len() >= w.need && w.claim.Terms.MaxHold == 0 {
					missing = append(missing, w)
				}
			}
			break
		}
	}
	b.mu.Unlock()
	for _, w := range missing {
		if !l.joinOne(w) {
			return
		}
	}
}

// joinOne joins the node to one claim, and says whether it is worth going on.
func (l *link) joinOne(w *wish) bool {
	token, ok := l.askFor(w, func() driver.Token { return w.token }, true)
	if !ok {
		return false
	}
	l.b.mu.Lock()
	if s := &w.slots[l.n]; token == w.token && s.state == granted && s.token == token {
		w.joined(l)
	}
	others := w.counted
	need := w.need
	higher := w.won && !w.gone && !w.counted.Has(l.n) && token > w.token
	l.b.mu.Unlock()
	if !higher {
		return true
	}
	// It granted with a higher token, for other claims raised its counter: somebody
	// newer may have been granted there and gone. It counts when enough nodes that
	// count have been raised above that: whoever had won by then is met there.
	var raised vote.Set
	for _, o := range l.b.links {
		if !others.Has(o.n) {
			continue
		}
		before := driver.Token(0)
		got, ok := o.askFor(w, func() driver.Token {
			before = w.slots[o.n].token
			return token + driver.TokenStep
		}, false)
		if ok && got != 0 && got == before {
			raised = raised.With(o.n)
		}
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	s := &w.slots[l.n]
	if (raised&w.counted).Len() >= need && s.state == granted && s.token == token && !s.busy {
		w.joined(l)
	}
	return true
}

// joined counts the node. Wants mu.
func (w *wish) joined(l *link) {
	if w.won && !w.gone && !w.counted.Has(l.n) && l.fresh() {
		w.count(true, w.counted.With(l.n))
	}
}

// askFor attempts a claim that has won on the node, without a line, with a floor,
// and returns the token it is granted with there, 0 if it is not. ok is not set if
// the node did not answer.
func (l *link) askFor(w *wish, floor func() driver.Token, lift bool) (token driver.Token, ok bool) {
	b := l.b
	b.mu.Lock()
	s := &w.slots[l.n]
	if s.busy || s.leaving || !w.won || w.gone || s.try == tries-1 {
		b.mu.Unlock()
		return 0, true
	}
	c := w.claim
	c.Seq, c.Queue, c.Floor, c.Lift = nodeSeq(w.seq, s.try), false, floor(), lift && s.state == granted
	s.busy = true
	b.mu.Unlock()
	var out driver.Outcome
	drv, life, rest, err := l.ready()
	sent := err == nil && rest == 0
	if sent {
		err = l.call(drv, life, func(ctx context.Context) (err error) {
			out, err = drv.Attempt(ctx, &c)
			return err
		})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.busy = false
	if l.life == life && l.drv != nil {
		w.learn(l.n, out, err, rest, sent)
	}
	w.step()
	if s.state == granted {
		token = s.token
	}
	return token, err == nil
}
