// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/quorum/internal/vote"
)

// Attempt implements driver.Session: in parallel to all nodes, decided as soon as
// it can be. What is under way then is not cancelled: it counts when it comes, or
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
	if _, buried := b.buried[c.Seq]; buried {
		return driver.Outcome{State: driver.Absent}, nil
	}
	w := b.wishes[c.Seq]
	if w == nil {
		w = b.newWish(c.Seq)
	} else if w.gone {
		return driver.Outcome{State: driver.Absent}, nil
	}
	w.known, w.limbo = true, false
	if w.round == nil || w.round.push {
		w.set(c)
		w.begin()
	}
	r := w.round
	if r == nil {
		r = w.last
	}
	return s.await(ctx, "attempt", w, r)
}

// set takes the claim as it was sent now. Wants mu.
func (w *wish) set(c *driver.Claim) {
	w.claim = *c
	need := vote.Needed(len(w.slots), c.Terms.Limit > 0)
	won, nodes := w.won, w.counted
	w.count(false, 0)
	w.need = need
	w.count(won, nodes)
}

// begin begins a round that asks every node that is worth asking. Wants mu.
func (w *wish) begin() {
	w.round = &round{began: time.Now()}
	w.last = w.round
	b := w.b
	worth := b.s.health.worth(w.need)
	var floor driver.Token
	for n := range w.slots {
		s, l := &w.slots[n], b.links[n]
		switch {
		case s.leaving || s.busy && s.state != absent:
			s.wanted = true
			w.withdrawAt(n)
		case s.busy:
		case l.drv == nil && l.opening == 0:
			s.state, s.err = unreached, errClosed
		case s.state == granted:
			w.ask(n, 0, false) // whether it still has it
		case !worth.Has(n):
			s.state, s.err = unreached, errAway
		default:
			if floor == 0 {
				floor = b.s.next()
			}
			w.ask(n, floor, false)
		}
	}
	w.decide()
}

// errAway says that a node was not asked.
var errAway = fmt.Errorf("it does not answer: %w", driver.ErrUnavailable)

// await waits for the end of a round. It wants mu, and lets go of it while it
// waits.
func (s *session) await(ctx context.Context, op string, w *wish, r *round) (driver.Outcome, error) {
	for {
		if r.done {
			if err := s.lost(); err != nil && r.err != nil {
				return driver.Outcome{}, fmt.Errorf("quorum: %s: %w", op, err)
			}
			return r.out, r.err
		}
		if err := s.lost(); err != nil {
			return driver.Outcome{}, fmt.Errorf("quorum: %s: %w", op, err)
		}
		changed := w.change()
		s.b.mu.Unlock()
		select {
		case <-changed:
			s.b.mu.Lock()
		case <-ctx.Done():
			s.b.mu.Lock()
			return driver.Outcome{}, cut(op, ctx.Err())
		}
	}
}

// Withdraw implements driver.Session: on every node, each after whatever is under
// way there. It returns when a majority has done it; the rest follows.
func (s *session) Withdraw(ctx context.Context, d driver.Withdrawal) (driver.Removed, error) {
	if err := s.enter(ctx, "withdraw"); err != nil {
		return driver.WasAbsent, err
	}
	b := s.b
	defer b.mu.Unlock()
	w := b.wishes[d.Seq]
	if w == nil {
		w = b.newWish(d.Seq)
		w.need = b.s.majority()
	}
	won, first := w.won, !w.gone
	if first || w.parted {
		w.depart(d)
	}
	began := time.Now()
	var patience <-chan time.Time
	for late := false; ; {
		done, going, failed := w.departed()
		enough := done >= b.s.majority()
		if enough && patience == nil {
			patience = time.After(w.patience(began))
		}
		if enough && (going == 0 || late) {
			found := w.foundWhat(won)
			if w.parted {
				found = driver.WasAbsent // it was told before
			}
			w.parted = true
			return found, nil
		}
		if err := s.lost(); err != nil {
			return driver.WasAbsent, fmt.Errorf("quorum: withdraw: %w", err)
		}
		if len(failed.list) > len(w.slots)-b.s.majority() {
			return driver.WasAbsent, failed.say("withdraw")
		}
		changed := w.change()
		b.mu.Unlock()
		select {
		case <-changed:
			b.mu.Lock()
		case <-patience:
			b.mu.Lock()
			late = true
		case <-ctx.Done():
			b.mu.Lock()
			return driver.WasAbsent, cut("withdraw", ctx.Err())
		}
	}
}

// patience is how long a withdrawal waits for the nodes it could do without: as
// long again as for the others. Whoever is next finds its lock free on all of
// them; whoever wants a claim with a limit must.
func (w *wish) patience(began time.Time) time.Duration {
	if w.need > w.b.s.majority() {
		return spent(began, openPatience)
	}
	return spent(began, nearPatience)
}

// depart makes the wish go from every node. Wants mu.
func (w *wish) depart(d driver.Withdrawal) {
	if d.Bury {
		w.b.buried[d.Seq] = struct{}{}
	}
	w.gone, w.limbo, w.broken, w.claim.Name = true, false, false, d.Name
	w.leave = driver.Withdrawal{KeepFor: d.KeepFor, Bury: d.Bury || w.leave.Bury}
	if w.claim.Terms == nil {
		w.claim.Terms = &driver.Terms{}
	}
	w.count(false, 0)
	for n := range w.slots {
		s := &w.slots[n]
		if !s.busy {
			s.found, s.err, s.had = driver.WasAbsent, nil, s.state == granted
			s.leaving = w.b.links[n].keeps()
		} else {
			s.leaving = true
		}
		if s.leaving {
			w.leaves(n)
		}
	}
	if w.round != nil {
		w.finish(driver.Outcome{State: driver.Absent}, nil)
	}
	w.part()
}

// departed counts the nodes that have nothing of the wish, those that are asked to
// remove it, and those that did not say. Nobody waits for a node that has not even
// answered the attempt. Wants mu.
func (w *wish) departed() (done, going int, failed errs) {
	for n := range w.slots {
		switch s := &w.slots[n]; {
		case s.going:
			going++
		case !s.busy && !s.leaving:
			done++
		case !s.busy && s.err != nil:
			failed.add(w.b.links[n].name, s.err)
		case !s.busy && w.b.links[n].drv == nil:
			failed.add(w.b.links[n].name, errClosed)
		}
	}
	return done, going, failed
}

// foundWhat is what a withdrawal found, from what the nodes found. Wants mu.
func (w *wish) foundWhat(won bool) driver.Removed {
	var n [driver.WasBroken + 1]int
	had, still := 0, 0
	for i := range w.slots {
		s := &w.slots[i]
		if s.busy || s.leaving {
			continue
		}
		n[s.found]++
		if s.had {
			had++
		}
		if s.had && s.found == driver.WasGranted {
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
