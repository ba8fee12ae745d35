// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/quorum/internal/vote"
)

// Attempt implements driver.Session: in parallel to all nodes, decided as soon as
// it can be. What is in flight then is not canceled: it counts when it comes, or
// is given back.
func (s *session) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if err := allowed(c.Name); err != nil {
		return driver.Outcome{}, err
	}
	if err := s.enter(ctx, "attempt"); err != nil {
		return driver.Outcome{}, err
	}
	b := s.b
	defer b.mu.Unlock()
	if b.tombstoned.has(c.Seq) {
		return driver.Outcome{State: driver.Absent}, nil
	}
	w := b.requests[c.Seq]
	if w == nil {
		delete(b.withdrawnBroken, c.Seq) // it may be broken again, which is to be reported
		w = b.newRequest(c.Seq)
	} else if w.gone {
		return driver.Outcome{State: driver.Absent}, nil
	}
	w.known, w.unconfirmed = true, false
	if w.round == nil || w.round.push {
		w.setLocked(c)
		w.beginLocked()
	}
	r := w.round
	if r == nil {
		r = w.last
	}
	return s.awaitLocked(ctx, "attempt", w, r)
}

// setLocked takes the claim as it was sent now. w.b.mu must be held.
func (w *request) setLocked(c *driver.Claim) {
	w.claim = *c
	need := vote.Needed(len(w.slots), c.Terms.Limit > 0)
	won, nodes := w.won, w.counted
	w.countLocked(false, 0)
	w.need = need
	w.countLocked(won, nodes)
}

// beginLocked begins a round that asks every node that is worth asking. w.b.mu must be held.
func (w *request) beginLocked() {
	w.round = &round{began: time.Now()}
	w.last = w.round
	b := w.b
	worth := b.s.health.worth(w.need)
	var floor driver.Token
	for n := range w.slots {
		s, l := &w.slots[n], b.links[n]
		switch {
		case s.Leaving() || s.Busy() && s.Standing != vote.Absent && s.Standing != vote.Denied:
			s.Slot = s.AskAgain()
			w.withdrawAtLocked(n)
		case s.Busy():
		case l.drv == nil && l.opening == nil:
			w.skipLocked(n, errClosed)
		case s.Standing == vote.Granted:
			w.askLocked(n, 0, false) // whether it still has it
		case !worth.Has(n):
			w.skipLocked(n, errAway)
		default:
			if floor == 0 {
				floor = b.s.next()
			}
			w.askLocked(n, floor, false)
		}
	}
	w.decideLocked()
}

// errAway is the error of a node that was not asked.
var errAway = fmt.Errorf("it does not answer: %w", driver.ErrUnavailable)

// awaitLocked waits for the end of a round. s.b.mu must be held; it is unlocked
// while it waits.
func (s *session) awaitLocked(ctx context.Context, op string, w *request, r *round) (driver.Outcome, error) {
	for {
		if r.done {
			if err := s.lostLocked(); err != nil && r.err != nil {
				return driver.Outcome{}, fmt.Errorf("quorum: %s: %w", op, err)
			}
			return r.out, r.err
		}
		if err := s.lostLocked(); err != nil {
			return driver.Outcome{}, fmt.Errorf("quorum: %s: %w", op, err)
		}
		changed := w.changeLocked()
		s.b.mu.Unlock()
		select {
		case <-changed:
			s.b.mu.Lock()
		case <-ctx.Done():
			s.b.mu.Lock()
			return driver.Outcome{}, errCanceled(op, ctx.Err())
		}
	}
}

// Withdraw implements driver.Session: on every node, each after whatever is under
// way there. It returns when a majority has done it; the rest follows. A lock that is
// to be kept is confirmed when as many nodes keep it as granted it.
func (s *session) Withdraw(ctx context.Context, d driver.Withdrawal) (driver.Removed, error) {
	if err := s.enter(ctx, "withdraw"); err != nil {
		return driver.WasAbsent, err
	}
	b := s.b
	defer b.mu.Unlock()
	w := b.requests[d.Seq]
	forgotten := w == nil
	if forgotten {
		w = b.newRequest(d.Seq)
		w.need = b.s.majority()
		w.askedEverywhereLocked()
	}
	won, first := w.won, !w.gone
	if first || w.confirmed {
		w.departLocked(d)
	}
	began := time.Now()
	var patience <-chan time.Time
	for late := false; ; {
		done, going, failed := w.departedLocked()
		need := b.s.majority()
		if w.keeping {
			need = w.need
		}
		enough := done >= need
		if enough && patience == nil {
			patience = time.After(w.patience(began))
		}
		if enough && (going == 0 || late) {
			found := w.foundLocked(won)
			if _, broken := b.withdrawnBroken[d.Seq]; broken && (w.confirmed || forgotten) {
				found = driver.WasBroken // at every withdrawal (I4)
			} else if w.confirmed {
				found = driver.WasAbsent // it was reported before
			}
			w.confirmed = true
			w.tidyLocked() // it may have been on no node
			return found, nil
		}
		if err := s.lostLocked(); err != nil {
			return driver.WasAbsent, fmt.Errorf("quorum: withdraw: %w", err)
		}
		if len(failed.list) > len(w.slots)-need {
			return driver.WasAbsent, failed.err("withdraw")
		}
		changed := w.changeLocked()
		b.mu.Unlock()
		select {
		case <-changed:
			b.mu.Lock()
		case <-patience:
			b.mu.Lock()
			late = true
		case <-ctx.Done():
			b.mu.Lock()
			return driver.WasAbsent, errCanceled("withdraw", ctx.Err())
		}
	}
}

// patience is how long a withdrawal waits for the nodes it could do without: as
// long again as for the others. The next waiter finds its lock free on all of
// them; one with a limit must.
func (w *request) patience(began time.Time) time.Duration {
	if w.need > w.b.s.majority() {
		return spent(began, openPatience)
	}
	return spent(began, nearPatience)
}

// askedEverywhereLocked notes that any node may have something of the claim. w.b.mu must be held.
func (w *request) askedEverywhereLocked() {
	for n := range w.slots {
		s := &w.slots[n]
		s.Slot = s.Asks()
	}
}

// departLocked makes the request go from every node that may have something of it. w.b.mu must be held.
func (w *request) departLocked(d driver.Withdrawal) {
	if d.Tombstone {
		w.b.tombstoned.add(d.Seq)
	}
	if w.broken {
		w.b.broken--
	}
	w.gone, w.unconfirmed, w.broken, w.claim.Name = true, false, false, d.Name
	w.leave = driver.Withdrawal{KeepFor: d.KeepFor, Tombstone: d.Tombstone || w.leave.Tombstone}
	w.keeping = d.KeepFor > 0 && w.won
	if w.claim.Terms == nil {
		w.claim.Terms = &driver.Terms{}
	}
	w.countLocked(false, 0)
	for n := range w.slots {
		s := &w.slots[n]
		if !s.Busy() {
			s.err = nil
		}
		if s.Slot = s.Leave(w.b.links[n].at.Present()); s.Leaving() {
			w.leavesLocked(n)
		}
	}
	if w.round != nil {
		w.finishLocked(driver.Outcome{State: driver.Absent}, nil)
	}
	w.withdrawDueLocked()
}

// errNotKept is the error of a node that cannot keep a lock because it did not have it.
var errNotKept = fmt.Errorf("it did not have the claim: %w", driver.ErrUnavailable)

// departedLocked counts the nodes that have nothing of the request, those that are asked to
// remove it, and those that did not answer. A withdrawal does not wait for a node that has not even
// answered the attempt. If the lock is to be kept only those count that keep it: one
// without our session keeps nothing. w.b.mu must be held.
func (w *request) departedLocked() (done, going int, failed errs) {
	for n := range w.slots {
		switch s := &w.slots[n]; {
		case s.Call == vote.Withdrawing:
			going++
		case s.Call == vote.Attempting:
		case !s.Leaving() && w.keeping && s.Removal != vote.Kept:
			failed.add(w.b.links[n].name, errNotKept)
		case !s.Leaving():
			done++
		case s.err != nil:
			failed.add(w.b.links[n].name, s.err)
		case w.b.links[n].drv == nil:
			failed.add(w.b.links[n].name, errClosed)
		}
	}
	return done, going, failed
}

// foundLocked is what a withdrawal found, from what the nodes found. w.b.mu must be held.
func (w *request) foundLocked(won bool) driver.Removed {
	var n [driver.WasBroken + 1]int
	had, still := 0, 0
	for i := range w.slots {
		s := &w.slots[i]
		if s.Busy() || s.Leaving() {
			continue
		}
		n[s.Found]++
		if s.Had {
			had++
		}
		if s.Had && s.Found == driver.WasGranted {
			still++
		}
	}
	switch {
	case n[driver.WasBroken] > 0:
		return driver.WasBroken
	case n[driver.WasGranted] >= w.need || won && 2*still > had:
		return driver.WasGranted
	case !won && n[driver.WasQueued]+n[driver.WasGranted] > 0:
		return driver.WasQueued
	}
	return driver.WasAbsent
}
