// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/quorum/internal/vote"
)

// Await implements driver.Session. The claim is queued on the nodes; when the
// holder leaves, each node grants to the first in its queue and pushes. If enough
// push with one token, that is the grant, without a round trip. If the lines were
// not the same, a minority is given back after a random time and the claim comes
// into the queue there again.
func (s *session) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if err := s.enter(ctx, "await"); err != nil {
		return driver.Outcome{}, err
	}
	b := s.b
	defer b.mu.Unlock()
	w := b.requests[c.Seq]
	switch {
	case w == nil || w.gone:
		return driver.Outcome{State: driver.Absent, PollAfter: b.ttl / 32}, nil
	case w.won:
		return driver.Outcome{State: driver.Granted, Token: w.token}, nil
	case w.round != nil:
		return s.awaitLocked(ctx, "await", w, w.round)
	case !b.s.caps.Push || !w.claim.Queue:
		after, grace := vote.PollAfter(w.need, w.votesLocked())
		if after <= 0 {
			after = b.ttl / 32
		}
		return driver.Outcome{State: driver.Busy, PollAfter: after, Grace: grace}, nil
	}
	r := &round{began: time.Now(), push: true}
	w.round, w.last = r, r
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	out, err := s.gatherLocked(waiting, w, r)
	if w.round == r {
		w.round = nil // it stays queued; the next attempt reads what it has
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("quorum: await: %w", ctx.Err())
	}
	return out, err
}

// gatherLocked waits for pushes until the round is decided or ctx ends. s.b.mu must be held; it is unlocked
// while it waits.
func (s *session) gatherLocked(ctx context.Context, w *request, r *round) (driver.Outcome, error) {
	b := s.b
	pause := b.s.gatherTime()
	again := time.NewTimer(pause)
	defer again.Stop()
	w.decideLocked()
	for !r.done && w.round == r {
		if err := s.lostLocked(); err != nil {
			return driver.Outcome{}, fmt.Errorf("quorum: await: %w", err)
		}
		for n := range w.slots {
			if st := &w.slots[n]; st.Standing == vote.Queued && !st.awaited && !st.Busy() && !st.Leaving() && b.links[n].drv != nil {
				st.awaited = true
				l, seq := b.links[n], nodeSeq(w.seq, st.Try)
				b.s.background.run(func() { l.await(ctx, w, seq) })
			}
		}
		changed := w.changeLocked()
		b.mu.Unlock()
		select {
		case <-changed:
			b.mu.Lock()
		case <-again.C:
			b.mu.Lock()
			w.queueAgainLocked()
			pause = min(2*pause, b.ttl/8, b.s.opts.NodeTimeout) + b.s.gatherTime()
			again.Reset(pause)
		case <-ctx.Done():
			b.mu.Lock()
			return driver.Outcome{}, ctx.Err()
		}
	}
	if !r.done { // another call attempts it; the caller polls what came of it
		return driver.Outcome{State: driver.Busy}, nil
	}
	return r.out, r.err
}

// queueAgainLocked queues the request where it is not. w.b.mu must be held.
func (w *request) queueAgainLocked() {
	worth := w.b.s.health.worth(w.need)
	for n := range w.slots {
		s := &w.slots[n]
		if !s.Busy() && !s.Leaving() && w.b.links[n].drv != nil && worth.Has(n) && s.Standing != vote.Granted && s.Standing != vote.Queued {
			w.askLocked(n, w.b.s.next(), false)
		} else if s.Leaving() {
			w.withdrawAtLocked(n)
		}
	}
}

// await waits for a push of one node.
func (l *nodeSession) await(ctx context.Context, w *request, seq uint64) {
	b := l.b
	b.mu.Lock()
	drv, renewal, c := l.drv, l.renewal, w.claim
	b.mu.Unlock()
	out, err := driver.Outcome{}, driver.ErrUnavailable
	if drv != nil {
		c.Seq = seq
		if out, err = drv.Await(ctx, &c); ctx.Err() == nil {
			l.heard(renewal, err)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &w.slots[l.n]
	s.awaited = false
	if l.renewal != renewal || s.Busy() || s.Leaving() || s.Standing != vote.Queued || nodeSeq(w.seq, s.Try) != seq {
		w.tidyLocked()
		return // it has moved on
	}
	r := reply{out: out, err: err, sent: true}
	if r.kind() == vote.ReplyGranted {
		w.learnedLocked(l.n, r)
	}
	if err == nil || ctx.Err() == nil {
		s.Slot, s.err = s.OnPush(r.kind(), out.Token), err
	}
	w.stepLocked()
}

// nodeContended takes the notice of a node that a claim is queued behind one of the session's.
// One node is enough: a claim waits on all nodes, and its queueing on one of them may have
// been lost. The node may hold a mutex, so the notice is passed on apart from it.
func (b *quorumSession) nodeContended(node uint64) {
	b.s.background.run(func() {
		b.mu.Lock()
		wanted := b.wanted
		b.mu.Unlock()
		if wanted != nil {
			wanted(coreSeq(node))
		}
	})
}
