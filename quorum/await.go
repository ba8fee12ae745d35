// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/quorum/internal/vote"
)

// Await implements driver.Session. The claim stands in line on the nodes; when the
// holder leaves, each node grants to the first in its line and pushes. If enough
// push with one token, that is the grant, without a round trip. If the lines were
// not the same, a minority is given back after a random time and the claim comes
// in line there again.
func (s *session) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if err := s.enter(ctx, "await"); err != nil {
		return driver.Outcome{}, err
	}
	b := s.b
	defer b.mu.Unlock()
	w := b.wishes[c.Seq]
	switch {
	case w == nil || w.gone:
		return driver.Outcome{State: driver.Absent, LookAfter: b.ttl / 32}, nil
	case w.won:
		return driver.Outcome{State: driver.Granted, Token: w.token}, nil
	case w.round != nil:
		return s.await(ctx, "await", w, w.round)
	case !b.s.caps.Push || !w.claim.Queue:
		after, grace := vote.LookAfter(w.need, w.votes())
		if after <= 0 {
			after = b.ttl / 32
		}
		return driver.Outcome{State: driver.Busy, LookAfter: after, Grace: grace}, nil
	}
	r := &round{began: time.Now(), push: true}
	w.round, w.last = r, r
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	out, err := s.gather(waiting, w, r)
	if w.round == r {
		w.round = nil // it stays in line; what it has is looked at by the next attempt
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("quorum: await: %w", ctx.Err())
	}
	return out, err
}

// gather waits for pushes until the round is decided or ctx ends. It wants mu, and
// lets go of it while it waits.
func (s *session) gather(ctx context.Context, w *wish, r *round) (driver.Outcome, error) {
	b := s.b
	pause := b.s.gatherTime()
	again := time.NewTimer(pause)
	defer again.Stop()
	w.decide()
	for !r.done && w.round == r {
		if err := s.lost(); err != nil {
			return driver.Outcome{}, fmt.Errorf("quorum: await: %w", err)
		}
		for n := range w.slots {
			if st := &w.slots[n]; st.state == inLine && !st.awaited && !st.busy && !st.leaving && b.links[n].drv != nil {
				st.awaited = true
				l, seq := b.links[n], nodeSeq(w.seq, st.try)
				b.s.behind.run(func() { l.await(ctx, w, seq) })
			}
		}
		changed := w.change()
		b.mu.Unlock()
		select {
		case <-changed:
			b.mu.Lock()
		case <-again.C:
			b.mu.Lock()
			w.comeAgain()
			pause = min(2*pause, b.ttl/8, b.s.opts.NodeTimeout) + b.s.gatherTime()
			again.Reset(pause)
		case <-ctx.Done():
			b.mu.Lock()
			return driver.Outcome{}, ctx.Err()
		}
	}
	if !r.done { // somebody attempts meanwhile: look at what came of it
		return driver.Outcome{State: driver.Busy}, nil
	}
	return r.out, r.err
}

// comeAgain comes into line where the wish is not. Wants mu.
func (w *wish) comeAgain() {
	worth := w.b.s.health.worth(w.need)
	for n := range w.slots {
		s := &w.slots[n]
		if !s.busy && !s.leaving && w.b.links[n].drv != nil && worth.Has(n) && s.state != granted && s.state != inLine {
			w.ask(n, w.b.s.next(), false)
		} else if s.leaving {
			w.withdrawAt(n)
		}
	}
}

// await waits for a push of one node.
func (l *link) await(ctx context.Context, w *wish, seq uint64) {
	b := l.b
	b.mu.Lock()
	drv, life, c := l.drv, l.life, w.claim
	b.mu.Unlock()
	var out driver.Outcome
	err := error(driver.ErrUnavailable)
	if drv != nil {
		c.Seq = seq
		if out, err = drv.Await(ctx, &c); ctx.Err() == nil {
			l.heard(life, err)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &w.slots[l.n]
	s.awaited = false
	if l.life != life || s.busy || s.leaving || s.state != inLine || nodeSeq(w.seq, s.try) != seq {
		w.tidy()
		return // it has moved on
	}
	switch {
	case err == nil && out.State == driver.Granted:
		w.learn(l.n, out, nil, 0, true)
	case err == nil:
		s.state = refused // for nothing: ask when there has been a pause
	case ctx.Err() == nil:
		s.state, s.err = unreached, err
	}
	w.step()
}
