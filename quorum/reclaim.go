// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/quorum/internal/vote"
)

// reclaimed is what a node said about a batch.
type reclaimed struct {
	answer
	life int
	kept []bool
}

// Reclaim implements driver.Session: every node is asked, and a claim is held if
// enough of them have it.
func (s *session) Reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	if err := s.enter(ctx, "reclaim"); err != nil {
		return nil, err
	}
	b := s.b
	wishes := b.remembered(held)
	answers := make(chan reclaimed, len(b.links))
	for _, l := range b.links {
		batch := l.batch(wishes)
		b.s.behind.run(func() { answers <- l.reclaim(batch, last) })
	}
	b.mu.Unlock()
	sent := time.Now()
	var failed errs
	var patience <-chan time.Time
	got := map[int]reclaimed{}
	for left := len(b.links); left > 0; {
		select {
		case a := <-answers:
			left--
			if failed.add(b.links[a.n].name, a.err); a.err == nil {
				got[a.n] = a
			}
		case <-patience:
			left = 0
		case <-ctx.Done():
			return nil, cut("reclaim", ctx.Err())
		}
		if len(got) >= b.s.majority() && patience == nil {
			patience = time.After(spent(sent, openPatience))
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := s.lost(); err != nil {
		return nil, fmt.Errorf("quorum: reclaim: %w", err)
	}
	if len(got) < b.s.majority() {
		return nil, failed.say("reclaim")
	}
	kept := make([]bool, len(held))
	for i, w := range wishes {
		kept[i] = w != nil && w.reclaim(i, got)
	}
	if last {
		b.dropUnknown()
	}
	return kept, nil
}

// remembered returns the wishes of a batch, nil for those that must not come back.
// Wants mu.
func (b *body) remembered(held []driver.Held) []*wish {
	wishes := make([]*wish, len(held))
	for i, h := range held {
		w := b.wishes[h.Claim.Seq]
		if _, buried := b.buried[h.Claim.Seq]; buried || w != nil && w.gone {
			continue
		}
		if w == nil {
			w = b.newWish(h.Claim.Seq)
		}
		w.set(&h.Claim)
		w.claim.Queue = false
		// Until the nodes have answered it stays where it is.
		w.known, w.limbo = true, !w.won
		w.token = h.Token.Base()
		wishes[i] = w
	}
	return wishes
}

// batch is what the node is asked for: each with the token it granted with. Wants
// mu.
func (l *link) batch(wishes []*wish) []driver.Held {
	batch := make([]driver.Held, len(wishes))
	for i, w := range wishes {
		if w == nil {
			continue
		}
		s := &w.slots[l.n]
		batch[i] = driver.Held{Claim: w.claim, Token: w.token}
		batch[i].Claim.Seq = nodeSeq(w.seq, s.try)
		switch {
		case s.was > 0:
			batch[i].Token = s.was
		case s.state == granted:
			batch[i].Token = s.token
		}
	}
	return batch
}

// reclaim asks the node for a batch; entries without a claim are not asked for.
func (l *link) reclaim(batch []driver.Held, last bool) reclaimed {
	b := l.b
	b.mu.Lock()
	drv, life := l.drv, l.life
	b.mu.Unlock()
	r := reclaimed{answer{l.n, errClosed}, life, make([]bool, len(batch))}
	if drv == nil {
		return r
	}
	var asked []driver.Held
	var index []int
	for i, h := range batch {
		if h.Token > 0 {
			asked, index = append(asked, h), append(index, i)
		}
	}
	var kept []bool
	r.err = l.call(drv, life, func(ctx context.Context) (err error) {
		kept, err = drv.Reclaim(ctx, asked, last)
		return err
	})
	if r.err == nil {
		for k, i := range index {
			r.kept[i] = kept[k]
		}
	}
	return r
}

// reclaim counts what the nodes said of the i-th of a batch. Wants mu.
func (w *wish) reclaim(i int, got map[int]reclaimed) bool {
	var nodes vote.Set
	for n, a := range got {
		l := w.b.links[n]
		if l.life != a.life || l.drv == nil {
			continue
		}
		s := &w.slots[n]
		if !a.kept[i] {
			if s.was = 0; !s.busy {
				s.state = absent
			}
			continue
		}
		counted := s.counted || w.won && w.counted.Has(n)
		if s.was > 0 {
			s.token = s.was
		} else if s.state != granted {
			s.token = w.token
		}
		s.state, s.was, s.counted = granted, 0, false
		if s.token == w.token || counted {
			nodes = nodes.With(n)
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
	if nodes.Len() >= w.need {
		w.limbo = false
		w.count(true, nodes)
		return true
	}
	// Nothing is given back here: the holder must be told first. The core does, and
	// then withdraws.
	w.count(false, 0)
	w.limbo = true
	return false
}

// dropUnknown removes the claims that nobody asked for since the session was
// opened again: their release was forgotten. Wants mu.
func (b *body) dropUnknown() {
	for _, w := range b.wishes {
		if !w.known && !w.gone {
			w.depart(driver.Withdrawal{Seq: w.seq, Name: w.claim.Name})
		}
	}
}
