// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/quorum/internal/vote"
)

// errClosed says that there is no session on a node.
var errClosed = fmt.Errorf("no session there: %w", driver.ErrUnavailable)

// KeepAlive implements driver.Session. It returns when a majority has kept the
// session and enough nodes of every claim have. The others finish behind it, and
// every node that was kept is tended: opened again, marked, joined.
func (s *session) KeepAlive(ctx context.Context) (driver.Life, error) {
	if err := s.enter(ctx, "keep alive"); err != nil {
		return driver.Life{}, err
	}
	b := s.b
	sent := b.now()
	b.mu.Unlock()
	answers := make(chan answer, len(b.links))
	for _, l := range b.links {
		b.s.behind.run(func() {
			err := l.keepAlive(sent)
			answers <- answer{l.n, err}
			if err == nil || errors.Is(err, errClosed) {
				l.tend()
			}
		})
	}
	var failed errs
	open := b.all()
	for {
		b.mu.Lock()
		life, err := s.renewed(sent, open, &failed)
		b.mu.Unlock()
		if err != nil || life.TTL > 0 {
			return life, err
		}
		select {
		case a := <-answers:
			open = open.Without(a.n)
			failed.add(b.links[a.n].name, a.err)
		case <-ctx.Done():
			return driver.Life{}, cut("keep alive", ctx.Err())
		}
	}
}

// renewed counts a round. It returns neither life nor error if it is too early to
// say. Wants mu.
func (s *session) renewed(sent stamp, open vote.Set, failed *errs) (driver.Life, error) {
	b := s.b
	if err := s.lost(); err != nil {
		return driver.Life{}, fmt.Errorf("quorum: keep alive: %w", err)
	}
	var kept vote.Set
	for _, l := range b.links {
		if l.drv != nil && l.kept >= sent {
			kept = kept.With(l.n)
		}
	}
	groups := make([]vote.Group, 0, len(b.groups))
	for g := range b.groups {
		groups = append(groups, g)
	}
	switch vote.Renew(len(b.links), groups, kept, open&^kept) {
	case vote.Renewed:
		b.base = max(b.base, sent)
		return b.told(sent), nil
	case vote.Short:
		if open&^kept != 0 {
			return driver.Life{}, nil // perhaps the session as a whole has ended: hear all
		}
		for _, g := range groups {
			if g.Nodes.Len() < g.Need {
				// Nodes said that they have it no more: that does not get better. The
				// core asks for every claim by itself, and loses only those.
				b.lostAt = b.opens
				return driver.Life{}, fmt.Errorf("quorum: keep alive: too few nodes have a claim: %w", driver.ErrForgotten)
			}
		}
		return driver.Life{}, failed.say("keep alive")
	case vote.Failed:
		if open&^kept != 0 && b.anyGone() {
			return driver.Life{}, nil // the same
		}
		return driver.Life{}, failed.say("keep alive")
	}
	return driver.Life{}, nil
}

// anyGone says whether a node has told that the session has ended there. Wants mu.
func (b *body) anyGone() bool {
	return slices.ContainsFunc(b.links, func(l *link) bool { return l.gone })
}

// keepAlive keeps the session alive on the node.
func (l *link) keepAlive(sent stamp) error {
	b := l.b
	b.mu.Lock()
	drv, life := l.drv, l.life
	b.mu.Unlock()
	if drv == nil {
		return errClosed
	}
	var told driver.Life
	asked := time.Now()
	err := l.call(drv, life, func(ctx context.Context) (err error) {
		told, err = drv.KeepAlive(ctx)
		return err
	})
	if err != nil {
		return err
	}
	b.s.health.clock(l.n, told.Clock, asked, time.Now())
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.life == life && l.drv != nil {
		l.ttl = told.TTL
		l.heardBroken(told.Broken)
		l.kept = max(l.kept, sent)
	}
	return nil
}
