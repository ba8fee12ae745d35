// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/quorum/internal/vote"
)

const (
	// nearPatience is how long a round waits at least for nodes that may make an
	// agreement, before it makes one by another round trip.
	nearPatience = time.Millisecond
	// maxLifts bounds how often a round lifts: each time another claim on the same
	// counter may have been faster.
	maxLifts = 8
	// maxGivenWay is how often a waiter that gave way asks again at once.
	maxGivenWay = 8
)

// errTries is the error of a node where a claim came and went too often; the next claim may.
var errTries = fmt.Errorf("too many retries on this node: %w", driver.ErrUnavailable)

// round is one attempt at a majority: by asking (Attempt), or by waiting for
// pushes (Await).
type round struct {
	began     time.Time
	push      bool // being lost is no end: others will leave
	impatient bool
	waits     bool // it ends because nodes are late: what it has is kept until a wait for pushes gives way
	timer     *time.Timer
	lifts     int
	done      bool
	out       driver.Outcome
	err       error
	// gathering is set while a minority has granted and the rest may follow.
	gathering *time.Timer
	gather    bool // it took too long: give way
	gaveWay   int  // how often it did
}

// askLocked sends the request to a node, unless a call is in flight there. w.b.mu must be held.
func (w *request) askLocked(n int, floor driver.Token, lift bool) {
	s := &w.slots[n]
	asked, ok := s.Ask()
	if ok && s.Try == tries-1 {
		w.skipLocked(n, errTries)
		return
	}
	if s.Slot = asked; !ok {
		return
	}
	c := w.claim
	c.Seq, c.Floor, c.Lift = nodeSeq(w.seq, s.Try), floor, lift
	c.Queue = c.Queue && w.b.s.nodes[n].Store.Caps().Queue
	l := w.b.links[n]
	left := l.leaving[c.Name]
	w.b.s.background.run(func() { l.attempt(w, &c, left) })
}

// attempt makes the call and takes note of the answer.
func (l *nodeSession) attempt(w *request, c *driver.Claim, left <-chan struct{}) {
	var out driver.Outcome
	drv, renewal, rest, err := l.ready()
	if err == nil && left != nil {
		err = l.after(left)
	}
	sent := false
	if err == nil && rest == 0 {
		sent = true
		err = l.call(renewal, func(ctx context.Context) (err error) {
			out, err = drv.Attempt(ctx, c)
			return err
		})
	}
	b := l.b
	b.mu.Lock()
	defer b.mu.Unlock()
	w.repliedLocked(l, reply{out, err, rest, sent}, l.renewal == renewal)
	w.stepLocked()
}

// skipLocked does without a node in this round. w.b.mu must be held.
func (w *request) skipLocked(n int, err error) {
	s := &w.slots[n]
	s.Slot, s.err = s.Skip(), err
}

// after waits until a claim of ours for the same name has gone from the node, as long
// as for an answer.
func (l *nodeSession) after(left <-chan struct{}) error {
	ctx := l.b.s.bound()
	select {
	case <-left:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("it still has an earlier claim of ours: %w", driver.ErrUnavailable)
	}
}

// reply is what came of an attempt on a node.
type reply struct {
	out  driver.Outcome
	err  error
	rest time.Duration // how long it was not sent for, because the node is not marked
	sent bool
}

// kind is the reply as the machine knows it.
func (r reply) kind() vote.Reply {
	switch {
	case r.rest > 0:
		return vote.ReplyNotReady
	case !r.sent:
		return vote.ReplyNotSent
	case errors.Is(r.err, driver.ErrUnknown):
		return vote.ReplyUnknown
	case errors.Is(r.err, context.DeadlineExceeded) || errors.Is(r.err, context.Canceled):
		return vote.ReplyCut
	case r.err != nil:
		return vote.ReplyRejected
	}
	switch r.out.State {
	case driver.Granted:
		return vote.ReplyGranted
	case driver.Queued:
		return vote.ReplyQueued
	case driver.Absent:
		return vote.ReplyAbsent
	}
	if r.out.Grace {
		return vote.ReplyGrace
	}
	return vote.ReplyBusy
}

// repliedLocked takes over the answer to an attempt. same is not set if the session on the node
// was opened again since. w.b.mu must be held.
func (w *request) repliedLocked(l *nodeSession, r reply, same bool) {
	s := &w.slots[l.n]
	current := same && l.drv != nil
	if current {
		w.learnedLocked(l.n, r)
	}
	s.Slot, s.err = s.OnReply(r.kind(), r.out.Token, current), r.err
	if !s.Leaving() { // it was not asked after all, or the session has ended there
		w.hasLeftLocked(l.n)
	}
}

// learnedLocked takes over what an answer means for the claim as a whole. The slot follows.
// w.b.mu must be held.
func (w *request) learnedLocked(n int, r reply) {
	s := &w.slots[n]
	s.out = r.out
	if r.rest > 0 {
		s.rest = r.rest
		return
	}
	if r.err != nil {
		return
	}
	if w.won && w.counted.Has(n) && !s.Same(r.kind(), r.out.Token) {
		w.countLocked(true, w.counted.Without(n)) // it is another grant than the one that counted
	}
	if w.b.s.health.counts(n) {
		w.b.s.sawToken(r.out.Token)
	}
	if r.out.Grace && r.out.State != driver.Granted {
		s.rest = max(r.out.PollAfter, time.Millisecond)
	}
}

// stepLocked goes on with the request after something changed. w.b.mu must be held.
func (w *request) stepLocked() {
	w.withdrawDueLocked()
	switch {
	case w.gone:
	case w.round != nil:
		w.decideLocked()
	case !w.won && !w.unconfirmed && !w.broken:
		w.yieldLocked() // no call asks for it any more, and it must not stay in the way
	case w.won:
		w.absorbLocked()
	}
	w.wakeLocked()
	w.tidyLocked()
}

// decideLocked counts the votes of the round in flight. w.b.mu must be held.
func (w *request) decideLocked() {
	r := w.round
	v := vote.Decide(w.need, w.votesLocked())
	switch v.Kind {
	case vote.Won:
		w.winLocked(v)
	case vote.Near:
		// A claim that was granted keeps its token: the nodes that count for it are waited for, each for NodeTimeout at most.
		// Late nodes of the first round may have granted with another one, and answer first.
		if w.won {
			return
		}
		if r.impatient {
			w.liftLocked()
		} else {
			w.hurrySoonLocked()
		}
	case vote.Split:
		w.liftLocked()
	case vote.Pending:
		switch {
		case !w.heldUpLocked():
		case r.push:
			w.giveWayLocked()
		case r.impatient:
			r.waits = true
			w.finishLocked(w.busyLocked(), nil)
		default:
			w.hurrySoonLocked()
		}
	case vote.Lost:
		switch {
		case r.push:
			w.giveWayLocked()
		case w.need < len(w.slots) || w.clearedLocked():
			w.refuseLocked()
		}
	}
}

// refuseLocked ends the round with the reason why it was lost. Who holds the lock, or that the
// nodes rest, is the answer if enough nodes answer so: while they have not, the rest of the
// nodes is waited for, each for NodeTimeout at most. w.b.mu must be held.
func (w *request) refuseLocked() {
	out, err := w.refusalLocked()
	if err != nil && slices.ContainsFunc(w.slots, func(s slot) bool { return s.Busy() }) {
		return
	}
	w.finishLocked(out, err)
}

// clearedLocked gives back what was granted, and reports whether that is done: a claim that
// needs every node must not leave a vote that is in the way of the next one.
// w.b.mu must be held.
func (w *request) clearedLocked() bool {
	if w.won {
		return true
	}
	w.yieldLocked()
	for n := range w.slots {
		if w.slots[n].Busy() {
			return false
		}
	}
	return true
}

// heldUpLocked reports whether a claim that waits is undecided only because of nodes that are later than a
// majority, while another claim is in the way on some of those that answered. Two claims that each have a
// part of these nodes would wait for the late ones, which have the backlog of both, and nobody would hold
// the lock. So it does not wait for them: it goes on to wait for pushes, and gives way there. A claim that
// does not wait has no second chance, and is answered when they are. w.b.mu must be held.
func (w *request) heldUpLocked() bool {
	if w.won || !w.claim.Queue || !w.b.s.caps.Push {
		return false
	}
	answered, inTheWay := 0, false
	for _, v := range w.votesLocked() {
		if v.State != vote.Open {
			answered++
		}
		inTheWay = inTheWay || v.State == vote.No
	}
	return inTheWay && answered >= w.need
}

// hurrySoonLocked makes a round that asks wait as long again as it took so far. One that waits for pushes
// began long before the answers that it has. w.b.mu must be held.
func (w *request) hurrySoonLocked() {
	r := w.round
	if r.timer != nil {
		return
	}
	patience := nearPatience
	if !r.push {
		patience = spent(r.began, nearPatience)
	}
	r.timer = time.AfterFunc(patience, func() { w.hurry(r) })
}

// hurry makes a round decide with what it has.
func (w *request) hurry(r *round) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	if w.round == r && !r.done {
		r.impatient = true
		w.stepLocked()
	}
}

// winLocked ends the round with a grant. w.b.mu must be held.
func (w *request) winLocked(v vote.Verdict) {
	nodes := v.Nodes
	for n := range w.slots {
		if w.won && w.token == v.Token && w.counted.Has(n) && w.slots[n].Busy() {
			nodes = nodes.With(n) // asked again, and not answered yet
		}
	}
	w.token, w.held = v.Token, true
	w.countLocked(true, nodes)
	out := driver.Outcome{State: driver.Granted, Token: v.Token}
	for n := range w.slots {
		if s := &w.slots[n]; v.Nodes.Has(n) && s.out.Remaining > 0 {
			if out.Remaining == 0 || s.out.Remaining < out.Remaining {
				out.Remaining = s.out.Remaining
			}
		}
	}
	w.finishLocked(out, nil)
}

// liftLocked asks the nodes that granted, with different tokens, for a common one. A
// claim that shares its grant cannot be lifted by one of those who share it: it
// gives way and comes again. w.b.mu must be held.
func (w *request) liftLocked() {
	r := w.round
	if r.lifts++; r.lifts > maxLifts || w.claim.Terms.Reentry != "" {
		w.finishLocked(w.refusalLocked())
		return
	}
	r.began, r.impatient, r.timer = time.Now(), false, nil
	floor := w.b.s.next()
	for n := range w.slots {
		if w.slots[n].State(w.b.links[n].freshLocked()) == vote.Yes {
			w.askLocked(n, floor, true)
		}
	}
}

// finishLocked ends the round and gives back what a minority granted. If the claim had
// been granted before, it is a lease: the nodes that answered otherwise do not
// count for it any more, and the next renewal fails if too few are left. w.b.mu must be held.
func (w *request) finishLocked(out driver.Outcome, err error) {
	r := w.round
	r.done, r.out, r.err = true, out, err
	for _, t := range []*time.Timer{r.timer, r.gathering} {
		if t != nil {
			t.Stop()
		}
	}
	w.round = nil
	if out.State != driver.Granted && !w.won && !r.waits {
		w.yieldLocked()
	}
	w.wakeLocked()
}

// refusalLocked is the answer to a claim that has not won. w.b.mu must be held.
func (w *request) refusalLocked() (driver.Outcome, error) {
	var failed errs
	blocked, silent, gone := 0, 0, 0
	for n := range w.slots {
		s := &w.slots[n]
		switch {
		case s.Busy():
			silent++
			failed.add(w.b.links[n].name, fmt.Errorf("not answered yet: %w", driver.ErrUnknown))
		case s.Standing == vote.Unreachable:
			silent++
			failed.add(w.b.links[n].name, s.err)
		case s.Standing == vote.Denied:
			gone++
		case s.Standing == vote.Queued || s.Standing == vote.Refused || s.Standing == vote.Resting:
			blocked++
		}
	}
	spare := len(w.slots) - w.need
	switch {
	case gone > spare:
		return driver.Outcome{State: driver.Absent}, nil // tombstoned, or over before we knew
	case blocked <= spare && len(w.slots)-silent < w.need:
		// Those in the way alone would not have kept it out.
		return driver.Outcome{}, failed.err("attempt")
	}
	return w.busyLocked(), nil
}

// busyLocked is the answer to a claim that others are in the way of. w.b.mu must be held.
func (w *request) busyLocked() driver.Outcome {
	out := driver.Outcome{State: driver.Busy, Holders: w.holdersLocked()}
	out.PollAfter, out.Grace = vote.PollAfter(w.need, w.votesLocked())
	return out
}

// gatherTime is how long a waiter keeps what a minority granted it before it gives
// way: long enough for the pushes of one release to arrive, and never the same for
// two, or three who split three nodes would do so forever.
func (s *Store) gatherTime() time.Duration {
	most := s.opts.NodeTimeout / 20
	return most/4 + rand.N(most)
}

// giveWayLocked begins to gather, or gives back what was gathered without success. w.b.mu must be held.
func (w *request) giveWayLocked() {
	r := w.round
	some := false
	for n := range w.slots {
		some = some || w.slots[n].Holds()
	}
	switch {
	case !some:
		if r.gathering != nil {
			r.gathering.Stop()
			r.gathering, r.gather = nil, false
		}
	case r.gather:
		r.gathering, r.gather = nil, false
		r.gaveWay++
		for n := range w.slots {
			// Behind those who wait there, or nobody may ask for the node for a while. But a node that the holder lacks is free for
			// as long as the lock is held, and must be free for the holder: it is asked now and then.
			if s := &w.slots[n]; s.Holds() && r.gaveWay <= maxGivenWay {
				s.Slot = s.AskAgain()
			}
		}
		w.yieldLocked()
	case r.gathering == nil:
		r.gathering = time.AfterFunc(w.b.s.gatherTime(), func() {
			w.b.mu.Lock()
			defer w.b.mu.Unlock()
			if w.round == r && !r.done {
				r.gather = true
				w.stepLocked()
			}
		})
	}
}
