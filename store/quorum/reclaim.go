// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/quorum/internal/vote"
)

// reclaimed is what a node answered about a batch.
type reclaimed struct {
	answer
	renewal int
	asked   []driver.Held // the node was not asked for entries without a claim
	kept    []bool
}

// countsLocked reports whether the answer is about the session and the claim as they are on the
// node now. w.b.mu must be held.
func (r *reclaimed) countsLocked(w *request, i int) bool {
	l := w.b.links[r.n]
	return l.renewal == r.renewal && l.drv != nil && r.wantedLocked(w, i)
}

// wantedLocked reports whether the i-th of the batch was not withdrawn since: then it is gone, or another try. w.b.mu must be held.
func (r *reclaimed) wantedLocked(w *request, i int) bool {
	return !w.gone && r.asked[i].Claim.Seq == nodeSeq(w.seq, w.slots[r.n].Try)
}

// Reclaim implements driver.Session: every node is asked, and a claim is held if
// enough of them have it. A slow node is waited for as long as a claim needs it, up to half of the
// time of ctx: without its answer the holder would lose a lock that it can have back.
func (s *session) Reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	if err := s.enter(ctx, "reclaim"); err != nil {
		return nil, err
	}
	b := s.b
	requests := b.rememberedLocked(held)
	answers := make(chan reclaimed, len(b.links))
	for _, l := range b.links {
		batch := l.batchLocked(requests)
		b.s.background.run(func() { answers <- l.reclaim(requests, batch, last) })
	}
	b.mu.Unlock()
	sent := time.Now()
	var failed errs
	var patience <-chan time.Time
	got := map[int]reclaimed{}
	over := false // so is the patience with nodes that no claim needs
	var half <-chan time.Time
	late := false // a claim that needs a silent node must not take the others along
	if end, ok := ctx.Deadline(); ok {
		half = time.After(end.Sub(sent) / 2)
	}
	for left := len(b.links); left > 0 && !(over && (late || b.decided(requests, got))); {
		select {
		case a := <-answers:
			left--
			if failed.add(b.links[a.n].name, a.err); a.err == nil {
				got[a.n] = a
			}
		case <-patience:
			over = true
		case <-half:
			late = true
		case <-ctx.Done():
			return nil, errCanceled("reclaim", ctx.Err())
		}
		if len(got) >= b.s.majority() && patience == nil {
			patience = time.After(spent(sent, openPatience))
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := s.lostLocked(); err != nil {
		return nil, fmt.Errorf("quorum: reclaim: %w", err)
	}
	if len(got) < b.s.majority() {
		return nil, failed.err("reclaim")
	}
	kept := make([]bool, len(held))
	for i, w := range requests {
		kept[i] = w != nil && w.reclaimLocked(i, got)
	}
	if last {
		b.dropUnknownLocked()
	}
	return kept, nil
}

// decided reports whether all requests are held, whatever the other nodes answer.
func (b *quorumSession) decided(requests []*request, got map[int]reclaimed) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, w := range requests {
		if w == nil || w.gone {
			continue
		}
		if nodes, _ := w.sharesLocked(i, got); nodes.Len() < w.need {
			return false
		}
	}
	return true
}

// rememberedLocked returns the requests of a batch, nil for those that must not come back.
// b.mu must be held.
func (b *quorumSession) rememberedLocked(held []driver.Held) []*request {
	requests := make([]*request, len(held))
	for i, h := range held {
		w := b.requests[h.Claim.Seq]
		if b.tombstoned.has(h.Claim.Seq) || w != nil && w.gone {
			continue
		}
		if w == nil {
			delete(b.withdrawnBroken, h.Claim.Seq) // as in Attempt
			w = b.newRequest(h.Claim.Seq)
		}
		w.setLocked(&h.Claim)
		w.claim.Queue = false
		// Until the nodes have answered it stays where it is.
		w.known, w.unconfirmed, w.held = true, !w.won, true
		w.token = h.Token.Base()
		requests[i] = w
	}
	return requests
}

// batchLocked begins a reclaim: it is what the node is asked for, each with the token it granted
// with. l.b.mu must be held.
func (l *nodeSession) batchLocked(requests []*request) []driver.Held {
	batch := make([]driver.Held, len(requests))
	for i, w := range requests {
		if w == nil {
			continue
		}
		s := &w.slots[l.n]
		var ok bool
		if s.Slot, ok = s.Reclaim(); !ok {
			continue
		}
		batch[i] = driver.Held{Claim: w.claim, Token: s.Reclaimed(w.token)}
		batch[i].Claim.Seq = nodeSeq(w.seq, s.Try)
	}
	return batch
}

// reclaim asks the node for a batch of claims. A node that is slower to open than the others
// is asked when it is open.
func (l *nodeSession) reclaim(requests []*request, batch []driver.Held, last bool) reclaimed {
	b := l.b
	r := reclaimed{answer: answer{l.n, errClosed}, asked: batch, kept: make([]bool, len(batch))}
	drv := l.opened(&r)
	if drv != nil {
		l.reclaimNow(&r, drv, requests, last)
	}
	if errors.Is(r.err, driver.ErrReset) || errors.Is(r.err, driver.ErrGone) {
		// The keep-alive that finds this, with which the session is opened again, is still on its way. Claims
		// of earlier batches are not back on the node, so it must not drop the rest: repair does.
		if err := l.open(); err == nil {
			if drv = l.opened(&r); drv != nil {
				l.reclaimNow(&r, drv, requests, false)
			}
		}
	}
	unknown := errors.Is(r.err, driver.ErrUnknown) || errors.Is(r.err, context.DeadlineExceeded) || errors.Is(r.err, context.Canceled)
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, w := range requests { // an entry without a claim is a reclaim that was not begun
		if batch[i].Claim.Seq > 0 {
			s := &w.slots[l.n]
			s.Slot = s.ReclaimEnded(tryOf(batch[i].Claim.Seq), unknown)
		}
	}
	return r
}

// opened returns the session to reclaim with, nil if the node has none, and waits for the Open in flight.
func (l *nodeSession) opened(r *reclaimed) driver.Session {
	l.b.mu.Lock()
	if o := l.opening; l.drv == nil && o != nil {
		l.b.mu.Unlock()
		<-o.done
		l.b.mu.Lock()
	}
	defer l.b.mu.Unlock()
	r.renewal = l.renewal
	return l.drv
}

// reclaimNow makes the call, without what was withdrawn since the batch was begun. The withdrawal may have found
// the claim on the node, or left a tombstone, and the node has lost either with its data or with the session: the claim would be back,
// and nobody would withdraw it again.
func (l *nodeSession) reclaimNow(r *reclaimed, drv driver.Session, requests []*request, last bool) {
	var asked []driver.Held
	var index []int
	l.b.mu.Lock()
	for i, h := range r.asked {
		if h.Token > 0 && r.wantedLocked(requests[i], i) {
			asked, index = append(asked, h), append(index, i)
		}
	}
	l.b.mu.Unlock()
	var kept []bool
	r.err = l.call(r.renewal, func(ctx context.Context) (err error) {
		kept, err = drv.Reclaim(ctx, asked, last)
		return err
	})
	if r.err == nil {
		for k, i := range index {
			r.kept[i] = kept[k]
		}
	}
}

// sharesLocked returns which nodes have the i-th of a batch again, and which of them count only later. A node
// that was not kept alive since the session was opened again has the claim, but may end it before
// the lease ends. w.b.mu must be held.
func (w *request) sharesLocked(i int, got map[int]reclaimed) (nodes, later vote.Set) {
	for n, a := range got {
		if !a.countsLocked(w, i) || w.b.links[n].kept < w.b.base {
			continue
		}
		switch _, share := w.slots[n].OnReclaimed(a.kept[i], w.token, w.won && w.counted.Has(n)); share {
		case vote.FullShare:
			nodes = nodes.With(n)
		case vote.LaterShare:
			later = later.With(n)
		}
	}
	if w.won { // those that did not answer may still have it
		nodes |= w.counted
		for n := range got {
			if !got[n].kept[i] {
				nodes = nodes.Without(n)
			}
		}
	}
	return nodes, later
}

// reclaimLocked takes over what the nodes answered about the i-th of a batch. w.b.mu must be held.
func (w *request) reclaimLocked(i int, got map[int]reclaimed) bool {
	if w.gone {
		return false // it was withdrawn while the nodes were asked
	}
	nodes, later := w.sharesLocked(i, got)
	for n, a := range got {
		if s := &w.slots[n]; a.countsLocked(w, i) {
			var share vote.Share
			s.Slot, share = s.OnReclaimed(a.kept[i], w.token, w.won && w.counted.Has(n))
			if share == vote.FullShare && !nodes.Has(n) {
				s.Slot = s.Suspend(true) // it counts when it has been kept alive: join
			}
		}
	}
	if nodes.Len() >= w.need {
		w.unconfirmed = false
		w.countLocked(true, nodes|later)
		return true
	}
	// Nothing is given back here: the holder must be notified first. The core does, and
	// then withdraws.
	w.countLocked(false, 0)
	w.unconfirmed = true
	return false
}

// dropUnknownLocked removes the claims that were not asked for since the session was
// opened again: their release was lost. b.mu must be held.
func (b *quorumSession) dropUnknownLocked() {
	for _, w := range b.requests {
		if !w.known && !w.gone {
			// A node where it came and went may have a tombstone, and would refuse it for as long as the core asks for it under this number.
			// So it must take another one.
			tombstone := w.triedLocked() || slices.ContainsFunc(w.slots, func(s slot) bool { return s.Tombstone() })
			w.dropped = true
			w.departLocked(driver.Withdrawal{Seq: w.seq, Name: w.claim.Name, Tombstone: tombstone})
			w.tidyLocked() // it may have been on no node
		}
	}
}
