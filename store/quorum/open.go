// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// openPatience is how long an Open waits at least for the nodes it could do
// without: one of them may answer that another list is in use.
const openPatience = 50 * time.Millisecond

// answer is what one node answered in a round.
type answer struct {
	n   int
	err error
}

// open opens the session on all nodes, or keeps it alive where it is open, and
// returns when a majority has.
func (b *quorumSession) open(ctx context.Context) (driver.Renewal, error) {
	began := time.Now()
	b.mu.Lock()
	sent := b.nowLocked()
	b.mu.Unlock()
	answers := make(chan answer, len(b.links))
	var lost atomic.Int64
	for _, l := range b.links {
		b.s.background.run(func() { answers <- answer{l.n, l.openOrKeep(sent, &lost)} })
	}
	var failed errs
	var patience <-chan time.Time
	opened, left := 0, len(b.links)
	for left > 0 {
		select {
		case a := <-answers:
			left--
			if errors.Is(a.err, driver.ErrRefused) {
				return driver.Renewal{}, a.err
			}
			if failed.add(b.links[a.n].name, a.err); a.err == nil {
				opened++
			}
		case <-patience:
			left = 0
		case <-ctx.Done():
			return driver.Renewal{}, errCanceled("open", ctx.Err())
		}
		if opened+left < b.s.majority() {
			return driver.Renewal{}, failed.err("open")
		}
		if opened >= b.s.majority() && patience == nil {
			patience = time.After(spent(began, openPatience))
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refused != nil {
		return driver.Renewal{}, b.refused
	}
	b.base, b.ended = sent, false
	if b.lostAt == b.opens || int(lost.Load()) > len(b.links)-b.s.majority() {
		b.lostAt = b.opens
		b.suspendLocked()
	}
	return b.renewalLocked(sent), nil
}

// suspendLocked makes every claim wait to be asked for again. b.mu must be held.
func (b *quorumSession) suspendLocked() {
	for _, w := range b.requests {
		w.known = false
		if !w.won {
			continue
		}
		for n := range w.slots {
			s := &w.slots[n]
			s.Slot = s.Suspend(w.counted.Has(n))
		}
		w.countLocked(false, 0)
		w.unconfirmed = true
	}
}

// openOrKeep opens the session on the node, or keeps it alive if it is open: only
// a keep-alive finds that the node has ended it since. lost counts those that
// did.
func (l *nodeSession) openOrKeep(sent stamp, lost *atomic.Int64) error {
	err := l.keepAlive(sent)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrReset):
		lost.Add(1)
	case !errors.Is(err, errClosed):
		return err
	}
	return l.open()
}

// renewalLocked is the renewal that the nodes kept since then agree on. b.mu must be held.
func (b *quorumSession) renewalLocked(since stamp) driver.Renewal {
	renewal := driver.Renewal{TTL: b.ttl}
	seen := map[uint64]bool{}
	for _, l := range b.links {
		if l.drv == nil || l.kept < since {
			continue
		}
		renewal.TTL = min(renewal.TTL, l.ttl)
		for _, seq := range l.broken {
			w := b.requests[seq]
			if _, mended := b.withdrawnBroken[seq]; !seen[seq] && !mended && (w == nil || !w.gone) {
				seen[seq] = true
				renewal.Broken = append(renewal.Broken, seq)
			}
		}
	}
	if b.broken > 0 { // a node may have reported one in an answer that came too late, or be away now
		for seq, w := range b.requests {
			if w.broken && !seen[seq] {
				renewal.Broken = append(renewal.Broken, seq)
			}
		}
	}
	return renewal
}

// heardBrokenLocked takes note of the claims that an operator broke on the node. l.b.mu must be held.
func (l *nodeSession) heardBrokenLocked(seqs []uint64) {
	l.broken = nil
	for _, node := range seqs {
		w := l.b.requests[coreSeq(node)]
		if _, mended := l.b.withdrawnBroken[coreSeq(node)]; mended || w != nil && w.gone {
			continue // its withdrawal is on its way, or overtook this answer
		}
		switch {
		case w == nil:
		case tryOf(node) != w.slots[l.n].Try:
			continue // a vote that was given back
		case !w.won && !w.unconfirmed && !w.broken: // a vote is no grant: it is given back, and the node asked again
			s := &w.slots[l.n]
			s.Slot = s.Yield(false).AskAgain()
			w.withdrawAtLocked(l.n)
			continue
		case !w.broken:
			w.broken = true
			l.b.broken++
			w.countLocked(false, 0)
		}
		l.broken = append(l.broken, coreSeq(node))
	}
}

// Close implements driver.Session. A node that answers that the session has
// ended is as good as one that ends it; what is in flight finds no session there.
func (s *session) Close(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return errNotStarted("close", err)
	}
	b := s.b
	b.mu.Lock()
	b.closed = true
	for _, w := range b.requests {
		w.wakeLocked()
	}
	b.mu.Unlock()
	b.s.drop(b)
	answers := b.closeAll()
	began := time.Now()
	var failed errs
	var patience <-chan time.Time
	done := 0
	for left := len(b.links); left > 0; {
		select {
		case a := <-answers:
			left--
			if failed.add(b.links[a.n].name, a.err); a.err == nil {
				done++
			}
			if left+done < b.s.majority() {
				return failed.err("close")
			}
			if done >= b.s.majority() && patience == nil {
				patience = time.After(spent(began, openPatience))
			}
		case <-patience:
			left = 0
		case <-ctx.Done():
			return errCanceled("close", ctx.Err())
		}
	}
	return nil
}

// closeAll closes the session on every node where it is open.
func (b *quorumSession) closeAll() <-chan answer {
	answers := make(chan answer, len(b.links))
	for _, l := range b.links {
		b.s.background.run(func() {
			b.mu.Lock()
			drv := l.drv
			b.mu.Unlock()
			if drv == nil {
				answers <- answer{l.n, nil}
				return
			}
			answers <- answer{l.n, l.close(drv)}
		})
	}
	return answers
}
