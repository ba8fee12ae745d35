// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock/driver"
)

// yield gives back what nodes granted to a wish that did not win, and settles what
// may have been granted without our knowing. Where it stands in line it stays.
// Wants mu.
func (w *wish) yield() {
	for n := range w.slots {
		s := &w.slots[n]
		if s.state == granted || s.unsure && !w.claim.Queue {
			s.leaving = true
		}
		w.withdrawAt(n)
	}
}

// part removes the wish from the nodes that it must go from. Wants mu.
func (w *wish) part() {
	for n := range w.slots {
		w.withdrawAt(n)
	}
}

// absorb counts a node that granted late, if it granted with the token. Others are
// seen to when the node is tended. Wants mu.
func (w *wish) absorb() {
	for n := range w.slots {
		s := &w.slots[n]
		if !s.busy && s.state == granted && s.token == w.token && !s.leaving && !w.counted.Has(n) && w.b.links[n].fresh() {
			w.count(true, w.counted.With(n))
		}
	}
}

// withdrawAt removes the wish from a node if it must go and no call is under way:
// a release must not overtake the attempt it is for. Wants mu.
func (w *wish) withdrawAt(n int) {
	s, l := &w.slots[n], w.b.links[n]
	if !s.leaving || s.busy {
		return
	}
	if l.drv == nil {
		w.hasLeft(n)
		if !l.forgot { // what it had has ended with the session there
			s.leaving, s.unsure, s.state = false, false, absent
		}
		return
	}
	s.busy, s.going = true, true
	d := w.leave
	d.Seq, d.Name = nodeSeq(w.seq, s.try), w.claim.Name
	d.Bury = d.Bury || s.unsure
	w.leaves(n)
	drv, life := l.drv, l.life
	w.b.s.behind.run(func() { l.withdraw(w, d, drv, life) })
}

// leaves makes attempts for the same name on the node wait. Wants mu.
func (w *wish) leaves(n int) {
	if s := &w.slots[n]; s.left == nil {
		s.left = make(chan struct{})
		w.b.links[n].leaving[w.claim.Name] = s.left
	}
}

// hasLeft lets them go on. Wants mu.
func (w *wish) hasLeft(n int) {
	s, l := &w.slots[n], w.b.links[n]
	if s.left == nil {
		return
	}
	close(s.left)
	if l.leaving[w.claim.Name] == s.left {
		delete(l.leaving, w.claim.Name)
	}
	s.left = nil
}

// withdraw makes the call and takes note of the answer.
func (l *link) withdraw(w *wish, d driver.Withdrawal, drv driver.Session, life int) {
	var found driver.Removed
	err := l.call(drv, life, func(ctx context.Context) (err error) {
		found, err = drv.Withdraw(ctx, d)
		return err
	})
	b := l.b
	b.mu.Lock()
	defer b.mu.Unlock()
	w.hasLeft(l.n)
	s := &w.slots[l.n]
	s.busy, s.going, s.err = false, false, err
	switch {
	case errors.Is(err, driver.ErrGone) || l.life != life && !l.forgot:
		s.leaving, s.unsure, s.state = false, false, absent
	case err == nil:
		s.leaving, s.unsure, s.state, s.found = false, false, absent, found
		s.out, s.denied = driver.Outcome{}, false
		if found == driver.WasBroken {
			b.mended[w.seq] = struct{}{}
		}
		s.try++
		if s.wanted && !w.gone && w.round != nil {
			w.ask(l.n, b.s.next(), false)
		}
	}
	w.settleStep(err)
}

// settleStep goes on after a withdrawal. One that failed is repeated when the node
// is tended, not at once. Wants mu.
func (w *wish) settleStep(err error) {
	if err == nil {
		w.step()
		return
	}
	w.wake()
	w.tidy()
}
