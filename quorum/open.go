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
// without: one of them may say that another list is in use.
const openPatience = 50 * time.Millisecond

// answer is what one node said in a round.
type answer struct {
	n   int
	err error
}

// open opens the session on all nodes, or keeps it alive where it is open, and
// returns when a majority has.
func (b *body) open(ctx context.Context) (driver.Life, error) {
	began := time.Now()
	b.mu.Lock()
	sent := b.now()
	b.mu.Unlock()
	answers := make(chan answer, len(b.links))
	var lost atomic.Int64
	for _, l := range b.links {
		b.s.behind.run(func() { answers <- answer{l.n, l.openOrKeep(sent, &lost)} })
	}
	var failed errs
	var patience <-chan time.Time
	opened, left := 0, len(b.links)
	for left > 0 {
		select {
		case a := <-answers:
			left--
			if errors.Is(a.err, driver.ErrRefused) {
				b.closeAll()
				return driver.Life{}, a.err
			}
			if failed.add(b.links[a.n].name, a.err); a.err == nil {
				opened++
			}
		case <-patience:
			left = 0
		case <-ctx.Done():
			return driver.Life{}, cut("open", ctx.Err())
		}
		if opened+left < b.s.majority() {
			return driver.Life{}, failed.say("open")
		}
		if opened >= b.s.majority() && patience == nil {
			patience = time.After(spent(began, openPatience))
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refused != nil {
		return driver.Life{}, b.refused
	}
	b.base, b.ended = sent, false
	if b.lostAt == b.opens || int(lost.Load()) > len(b.links)-b.s.majority() {
		b.lostAt = b.opens
		b.suspend()
	}
	return b.told(sent), nil
}

// suspend makes every claim wait to be asked for again. Wants mu.
func (b *body) suspend() {
	for _, w := range b.wishes {
		w.known = false
		if !w.won {
			continue
		}
		for n := range w.slots {
			w.slots[n].counted = w.slots[n].counted || w.counted.Has(n)
		}
		w.count(false, 0)
		w.limbo = true
	}
}

// openOrKeep opens the session on the node, or keeps it alive if it is open: only
// a keep-alive tells that the node has ended it meanwhile. lost counts those that
// did.
func (l *link) openOrKeep(sent stamp, lost *atomic.Int64) error {
	err := l.keepAlive(sent)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrForgotten):
		lost.Add(1)
	case !errors.Is(err, errClosed):
		return err
	}
	return l.open()
}

// told is the life that the nodes kept since then agree on. Wants mu.
func (b *body) told(since stamp) driver.Life {
	life := driver.Life{TTL: b.ttl}
	seen := map[uint64]bool{}
	for _, l := range b.links {
		if l.drv == nil || l.kept < since {
			continue
		}
		life.TTL = min(life.TTL, l.ttl)
		for _, seq := range l.broken {
			w := b.wishes[seq]
			if _, mended := b.mended[seq]; !seen[seq] && !mended && (w == nil || !w.gone) {
				seen[seq] = true
				life.Broken = append(life.Broken, seq)
			}
		}
	}
	return life
}

// heardBroken takes note of the claims that an operator broke on the node. Wants
// mu.
func (l *link) heardBroken(seqs []uint64) {
	l.broken = nil
	for _, node := range seqs {
		w := l.b.wishes[coreSeq(node)]
		if _, mended := l.b.mended[coreSeq(node)]; mended || w != nil && w.gone {
			continue // its withdrawal is on its way, or overtook this answer
		}
		l.broken = append(l.broken, coreSeq(node))
		if w != nil {
			w.broken = true
			w.count(false, 0)
		}
	}
}

// Close implements driver.Session. A node that says that the session has ended is
// as good as one that ends it; what is under way finds no session to hang on.
func (s *session) Close(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return ended("close", err)
	}
	b := s.b
	b.mu.Lock()
	b.closed = true
	for _, w := range b.wishes {
		w.wake()
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
				return failed.say("close")
			}
			if done >= b.s.majority() && patience == nil {
				patience = time.After(spent(began, openPatience))
			}
		case <-patience:
			left = 0
		case <-ctx.Done():
			return cut("close", ctx.Err())
		}
	}
	return nil
}

// closeAll closes the session on every node where it is open.
func (b *body) closeAll() <-chan answer {
	answers := make(chan answer, len(b.links))
	for _, l := range b.links {
		b.s.behind.run(func() {
			b.mu.Lock()
			drv := l.drv
			b.mu.Unlock()
			if drv == nil {
				answers <- answer{l.n, nil}
				return
			}
			ctx, cancel := b.s.bound()
			defer cancel()
			err := drv.Close(ctx)
			b.s.health.answered(l.n, err)
			if errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrForgotten) {
				err = nil
			}
			answers <- answer{l.n, err}
		})
	}
	return answers
}
