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

// errClosed is the error of a node without a session.
var errClosed = fmt.Errorf("no session there: %w", driver.ErrUnavailable)

// KeepAlive implements driver.Session. It returns when a majority has kept the
// session and enough nodes of every claim have. The others finish in the background, and
// every node that was kept is repaired: opened again, marked, joined.
func (s *session) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	if err := s.enter(ctx, "keep alive"); err != nil {
		return driver.Renewal{}, err
	}
	b := s.b
	sent := b.nowLocked()
	b.mu.Unlock()
	answers := make(chan answer, len(b.links))
	for _, l := range b.links {
		b.s.background.run(func() {
			err := l.keepAlive(sent)
			answers <- answer{l.n, err}
			if err == nil || errors.Is(err, errClosed) {
				l.repair()
			}
		})
	}
	var failed errs
	open := b.all()
	for {
		b.mu.Lock()
		renewal, err := s.renewedLocked(sent, open, &failed)
		b.mu.Unlock()
		if err != nil || renewal.TTL > 0 {
			return renewal, err
		}
		select {
		case a := <-answers:
			open = open.Without(a.n)
			failed.add(b.links[a.n].name, a.err)
		case <-ctx.Done():
			return driver.Renewal{}, errCanceled("keep alive", ctx.Err())
		}
	}
}

// renewedLocked counts a round. It returns neither a renewal nor an error while the outcome
// is open. s.b.mu must be held.
func (s *session) renewedLocked(sent stamp, open vote.Set, failed *errs) (driver.Renewal, error) {
	b := s.b
	if err := s.lostLocked(); err != nil {
		return driver.Renewal{}, fmt.Errorf("quorum: keep alive: %w", err)
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
		return b.renewalLocked(sent), nil
	case vote.Short:
		if open&^kept != 0 {
			return driver.Renewal{}, nil // perhaps the session as a whole has ended: hear all
		}
		for _, g := range groups {
			if g.Nodes.Len() < g.Need {
				// Nodes answered that they have it no more: that does not get better. The
				// core asks for every claim by itself, and loses only those.
				b.lostAt = b.opens
				return driver.Renewal{}, fmt.Errorf("quorum: keep alive: too few nodes have a claim: %w", driver.ErrReset)
			}
		}
		return driver.Renewal{}, failed.err("keep alive")
	case vote.Failed:
		if open&^kept != 0 && b.anyEndedLocked() {
			return driver.Renewal{}, nil // the same
		}
		return driver.Renewal{}, failed.err("keep alive")
	}
	return driver.Renewal{}, nil
}

// anyEndedLocked reports whether a node has answered that the session has ended there. b.mu must be held.
func (b *quorumSession) anyEndedLocked() bool {
	return slices.ContainsFunc(b.links, func(l *nodeSession) bool { return l.at == vote.Ended })
}

// keepAlive keeps the session alive on the node.
func (l *nodeSession) keepAlive(sent stamp) error {
	b := l.b
	b.mu.Lock()
	drv, renewal := l.drv, l.renewal
	b.mu.Unlock()
	if drv == nil {
		return errClosed
	}
	var notified driver.Renewal
	asked := time.Now()
	err := l.call(renewal, func(ctx context.Context) (err error) {
		notified, err = drv.KeepAlive(ctx)
		return err
	})
	if err != nil {
		return err
	}
	b.s.health.clock(l.n, notified.Clock, asked, time.Now())
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.renewal == renewal && l.drv != nil {
		l.ttl = notified.TTL
		l.heardBrokenLocked(notified.Broken)
		l.kept = max(l.kept, sent)
	}
	return nil
}
