// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/quorum/internal/vote"
)

// yieldLocked gives back what nodes granted to a request that did not win, and withdraws what
// may have been granted without our knowing. Where it is queued it stays.
// w.b.mu must be held.
func (w *request) yieldLocked() {
	for n := range w.slots {
		s := &w.slots[n]
		s.Slot = s.Yield(w.claim.Queue)
		if s.Removal == vote.Due { // one that failed is repeated when the node is repaired
			w.withdrawAtLocked(n)
		}
	}
}

// withdrawDueLocked removes the request from the nodes that it must go from. w.b.mu must be held.
func (w *request) withdrawDueLocked() {
	for n := range w.slots {
		w.withdrawAtLocked(n)
	}
}

// absorbLocked counts a node that granted late, if it granted with the token. Others are
// joined when the node is repaired. w.b.mu must be held.
func (w *request) absorbLocked() {
	for n := range w.slots {
		s := &w.slots[n]
		if s.State(w.b.links[n].freshLocked()) == vote.Yes && s.Token == w.token && !w.counted.Has(n) {
			w.countLocked(true, w.counted.With(n))
		}
	}
}

// withdrawAtLocked removes the request from a node if it must go and no call is in flight:
// a release must not overtake the attempt it is for. w.b.mu must be held.
func (w *request) withdrawAtLocked(n int) {
	s, l := &w.slots[n], w.b.links[n]
	if !s.Leaving() || s.Busy() {
		return
	}
	var send bool
	if s.Slot, send = s.Withdraw(l.at); !send {
		w.hasLeftLocked(n)
		return
	}
	d := w.leave
	d.Seq, d.Name = nodeSeq(w.seq, s.Try), w.claim.Name
	d.Tombstone = d.Tombstone || s.Tombstone()
	w.leavesLocked(n)
	drv, renewal := l.drv, l.renewal
	var void driver.Token // of a grant that must not be kept for its MinHold
	if w.claim.Terms.MinHold > 0 && !w.held && s.Standing == vote.Granted {
		void = s.Token
	}
	w.b.s.background.run(func() { l.withdraw(w, d, drv, renewal, void) })
}

// leavesLocked makes attempts for the same name on the node wait. w.b.mu must be held.
func (w *request) leavesLocked(n int) {
	if s := &w.slots[n]; s.left == nil {
		s.left = make(chan struct{})
		w.b.links[n].leaving[w.claim.Name] = s.left
	}
}

// hasLeftLocked lets them go on. w.b.mu must be held.
func (w *request) hasLeftLocked(n int) {
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
func (l *nodeSession) withdraw(w *request, d driver.Withdrawal, drv driver.Session, renewal int, void driver.Token) {
	var found driver.Removed
	err := l.call(renewal, func(ctx context.Context) (err error) {
		found, err = drv.Withdraw(ctx, d)
		return err
	})
	if void > 0 && err == nil && found == driver.WasGranted {
		l.unkeep(d.Name, void)
	}
	b := l.b
	b.mu.Lock()
	defer b.mu.Unlock()
	w.hasLeftLocked(l.n)
	s := &w.slots[l.n]
	defer l.sweptOneLocked(s, err)
	kind := vote.WithdrawnOK
	switch {
	case s.Removal == vote.Moot || l.renewal == renewal && errors.Is(err, driver.ErrGone):
		kind = vote.WithdrawnEnded
	case l.renewal != renewal && l.at != vote.Reset: // what it removed may have been put back since the session was opened again
		kind, err = vote.WithdrawnUnknown, driver.ErrUnknown
	case errors.Is(err, driver.ErrUnknown):
		kind = vote.WithdrawnUnknown
	case err != nil:
		kind = vote.WithdrawnFailed
	}
	s.Slot, s.err = s.OnWithdrawn(kind, found, d.KeepFor > 0), err
	if kind == vote.WithdrawnOK {
		s.out = driver.Outcome{}
		if found == driver.WasBroken && w.gone { // what a waiter gave back is not its claim: that may be broken later
			b.withdrawnBroken[w.seq] = struct{}{}
		}
		if s.Again && !w.gone && w.round != nil {
			w.askLocked(l.n, b.s.next(), false)
		}
	}
	w.withdrawnStepLocked(err)
}

// withdrawnStepLocked goes on after a withdrawal. One that failed is repeated when the node
// is repaired, not at once; a round that waits for it counts the node as out. w.b.mu must be held.
func (w *request) withdrawnStepLocked(err error) {
	if err == nil {
		w.stepLocked()
		return
	}
	if w.round != nil && !w.gone {
		w.decideLocked()
	}
	w.wakeLocked()
	w.tidyLocked()
}

// unkeep frees on the node what a claim that did not win left taken there by its MinHold: it never held the lock, so
// the lock must not stay taken for it. If that fails, it stays taken until the MinHold ends.
func (l *nodeSession) unkeep(name string, token driver.Token) {
	ctx := l.b.s.bound()
	st, err := l.store().Inspect(ctx, name)
	mine, others := 0, 0 // a grant that shares the token by re-entry must stay
	for _, h := range st.Holders {
		switch {
		case h.Token.Base() != token.Base():
		case h.Kept:
			mine++
		default:
			others++
		}
	}
	if err == nil && mine == 1 && others == 0 {
		_, err = l.store().Break(ctx, name, token)
	}
	if !errors.Is(err, driver.ErrNotHeld) {
		l.b.s.health.answered(l.n, err)
	}
}
