// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/quorum/internal/vote"
)

const (
	// nearPatience is how long a round waits at least for nodes that may make an
	// agreement, before it makes one by another round trip.
	nearPatience = time.Millisecond
	// maxLifts bounds how often a round lifts: each time another claim on the same
	// counter may have been faster.
	maxLifts = 8
)

// errTries says that a claim came and went too often on a node; the next claim may.
var errTries = fmt.Errorf("the claim gave way there too often: %w", driver.ErrUnavailable)

// round is one attempt at a majority: by asking (Attempt), or by waiting for
// pushes (Await).
type round struct {
	began     time.Time
	push      bool // being lost is no end: others will leave
	impatient bool
	timer     *time.Timer
	lifts     int
	done      bool
	out       driver.Outcome
	err       error
	// gathering is set while a minority has granted and the rest may follow.
	gathering *time.Timer
	gather    bool // it took too long: give way
}

// ask sends the wish to a node, unless a call is under way there. Wants mu.
func (w *wish) ask(n int, floor driver.Token, lift bool) {
	s := &w.slots[n]
	if s.busy {
		return
	}
	if s.wanted = false; s.try == tries-1 {
		s.state, s.err = unreached, errTries
		return
	}
	c := w.claim
	c.Seq, c.Floor, c.Lift = nodeSeq(w.seq, s.try), floor, lift
	c.Queue = c.Queue && w.b.s.nodes[n].Store.Caps().Queue
	s.busy = true
	l := w.b.links[n]
	left := l.leaving[c.Name]
	w.b.s.behind.run(func() { l.attempt(w, &c, left) })
}

// attempt makes the call and takes note of the answer.
func (l *link) attempt(w *wish, c *driver.Claim, left <-chan struct{}) {
	var out driver.Outcome
	drv, life, rest, err := l.ready()
	if err == nil && left != nil {
		err = l.after(left)
	}
	sent := false
	if err == nil && rest == 0 {
		sent = true
		err = l.call(drv, life, func(ctx context.Context) (err error) {
			out, err = drv.Attempt(ctx, c)
			return err
		})
	}
	b := l.b
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &w.slots[l.n]
	s.busy = false
	if l.life == life && l.drv != nil {
		w.learn(l.n, out, err, rest, sent)
	} else {
		s.state, s.err = unreached, err
	}
	w.step()
}

// after waits until a claim of ours for the same name has gone from the node, as long
// as for an answer.
func (l *link) after(left <-chan struct{}) error {
	ctx, cancel := l.b.s.bound()
	defer cancel()
	select {
	case <-left:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("it still has an earlier claim of ours: %w", driver.ErrUnavailable)
	}
}

// learn takes note of a node's answer. Wants mu.
func (w *wish) learn(n int, out driver.Outcome, err error, rest time.Duration, sent bool) {
	s := &w.slots[n]
	s.out, s.err = out, err
	switch {
	case rest > 0:
		s.state, s.rest = resting, rest
		return
	case err != nil:
		s.state = unreached
		s.unsure = s.unsure || sent && errors.Is(err, driver.ErrUnknown)
		return
	}
	if same := out.State == driver.Granted && out.Token == s.token; w.won && w.counted.Has(n) && !same {
		w.count(true, w.counted.Without(n)) // it is another grant than the one that counted
	}
	if w.b.s.health.counts(n) {
		w.b.s.saw(out.Token)
	}
	s.unsure, s.denied = false, out.State == driver.Absent
	switch {
	case out.State == driver.Granted:
		s.state, s.token = granted, out.Token
	case out.State == driver.Queued:
		s.state = inLine
	case out.State == driver.Absent:
		s.state = absent
	default:
		s.state = refused
	}
	if out.Grace && out.State != driver.Granted {
		s.rest = max(out.LookAfter, time.Millisecond)
		if s.state == refused {
			s.state = resting
		}
	}
}

// step goes on with the wish after something changed. Wants mu.
func (w *wish) step() {
	w.part()
	switch {
	case w.gone:
	case w.round != nil:
		w.decide()
	case !w.won && !w.limbo && !w.broken:
		w.yield() // nobody asks for it any more, and it must not stay in the way
	case w.won:
		w.absorb()
	}
	w.wake()
	w.tidy()
}

// decide counts the votes of the round under way. Wants mu.
func (w *wish) decide() {
	r := w.round
	v := vote.Decide(w.need, w.votes())
	switch v.Kind {
	case vote.Won:
		w.win(v)
	case vote.Near:
		if r.impatient {
			w.lift()
		} else if r.timer == nil {
			r.timer = time.AfterFunc(spent(r.began, nearPatience), func() { w.hurry(r) })
		}
	case vote.Split:
		w.lift()
	case vote.Lost:
		switch {
		case r.push:
			w.giveWay()
		case w.need < len(w.slots) || w.cleared():
			w.finish(w.refusal())
		}
	}
}

// cleared gives back what was granted, and says whether that is done: a claim that
// needs every node must not leave a vote behind that is in the way of the next one.
// Wants mu.
func (w *wish) cleared() bool {
	if w.won {
		return true
	}
	w.yield()
	for n := range w.slots {
		if w.slots[n].busy {
			return false
		}
	}
	return true
}

// hurry makes a round decide with what it has.
func (w *wish) hurry(r *round) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	if w.round == r && !r.done {
		r.impatient = true
		w.step()
	}
}

// win ends the round with a grant. Wants mu.
func (w *wish) win(v vote.Verdict) {
	nodes := v.Nodes
	for n := range w.slots {
		if w.won && w.token == v.Token && w.counted.Has(n) && w.slots[n].busy {
			nodes = nodes.With(n) // asked again, and not answered yet
		}
	}
	w.token = v.Token
	w.count(true, nodes)
	out := driver.Outcome{State: driver.Granted, Token: v.Token}
	for n := range w.slots {
		if s := &w.slots[n]; v.Nodes.Has(n) && s.out.Remaining > 0 {
			if out.Remaining == 0 || s.out.Remaining < out.Remaining {
				out.Remaining = s.out.Remaining
			}
		}
	}
	w.finish(out, nil)
}

// lift asks the nodes that granted, with different tokens, for a common one. A
// claim that shares its grant cannot be lifted by one of those who share it: it
// gives way and comes again. Wants mu.
func (w *wish) lift() {
	r := w.round
	if r.lifts++; r.lifts > maxLifts || w.claim.Terms.Reentry != "" {
		w.finish(w.refusal())
		return
	}
	r.began, r.impatient, r.timer = time.Now(), false, nil
	floor := w.b.s.next()
	for n := range w.slots {
		if s := &w.slots[n]; !s.busy && s.state == granted && !s.leaving && w.b.links[n].fresh() {
			w.ask(n, floor, true)
		}
	}
}

// finish ends the round and gives back what a minority granted. If the claim had
// been granted before, it is somebody's lease: the nodes that said otherwise do not
// count for it any more, and the next renewal tells if too few are left. Wants mu.
func (w *wish) finish(out driver.Outcome, err error) {
	r := w.round
	r.done, r.out, r.err = true, out, err
	for _, t := range []*time.Timer{r.timer, r.gathering} {
		if t != nil {
			t.Stop()
		}
	}
	w.round = nil
	if out.State != driver.Granted && !w.won {
		w.yield()
	}
	w.wake()
}

// refusal is the answer to a claim that has not won. Wants mu.
func (w *wish) refusal() (driver.Outcome, error) {
	var failed errs
	blocked, silent, gone := 0, 0, 0
	out := driver.Outcome{State: driver.Busy}
	for n := range w.slots {
		s := &w.slots[n]
		switch {
		case s.busy:
			silent++
			failed.add(w.b.links[n].name, fmt.Errorf("not answered yet: %w", driver.ErrUnknown))
		case s.state == unreached:
			silent++
			failed.add(w.b.links[n].name, s.err)
		case s.state == absent && s.denied:
			gone++
		case s.state == inLine || s.state == refused || s.state == resting:
			blocked++
		}
	}
	spare := len(w.slots) - w.need
	switch {
	case gone > spare:
		return driver.Outcome{State: driver.Absent}, nil // buried, or over before we knew
	case blocked <= spare && len(w.slots)-silent < w.need:
		// Those in the way alone would not have kept it out.
		return driver.Outcome{}, failed.say("attempt")
	}
	out.LookAfter, out.Grace = vote.LookAfter(w.need, w.votes())
	out.Holders = w.holders()
	return out, nil
}

// gatherTime is how long a waiter keeps what a minority granted it before it gives
// way: long enough for the pushes of one release to arrive, and never the same for
// two, or three who split three nodes would do so for ever.
func (s *Store) gatherTime() time.Duration {
	most := s.opts.NodeTimeout / 20
	return most/4 + rand.N(most)
}

// giveWay begins to gather, or gives back what was gathered in vain. Wants mu.
func (w *wish) giveWay() {
	r := w.round
	some := false
	for n := range w.slots {
		some = some || w.slots[n].state == granted && !w.slots[n].leaving
	}
	switch {
	case !some:
		if r.gathering != nil {
			r.gathering.Stop()
			r.gathering, r.gather = nil, false
		}
	case r.gather:
		r.gathering, r.gather = nil, false
		w.yield()
	case r.gathering == nil:
		r.gathering = time.AfterFunc(w.b.s.gatherTime(), func() {
			w.b.mu.Lock()
			defer w.b.mu.Unlock()
			if w.round == r && !r.done {
				r.gather = true
				w.step()
			}
		})
	}
}
