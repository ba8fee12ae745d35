// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/foreign"
)

// Open implements driver.Store. A session that is opened again is the same one: its claims have numbers that only this
// process knows, and attempts and withdrawals of before may still be under way.
func (s *Store) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	ses, known := req.Before.(*session)
	if !known || ses.store != s || ses.id != req.ID || ses.ttl != req.TTL || ses.closed.Load() {
		n := len(s.nodes)
		ses = &session{
			store: s, id: req.ID, ttl: req.TTL, turn: make(chan struct{}, 1),
			nodes: make([]driver.Session, n), last: make([]driver.Session, n), claims: map[uint64]*claim{},
		}
	}
	if err := ses.open(ctx); err != nil {
		return nil, driver.Renewal{}, err
	}
	return ses, driver.Renewal{TTL: req.TTL - drift(req.TTL)}, nil
}

// open opens the session on all servers, for the first time or again.
func (s *session) open(ctx context.Context) error {
	leave, err := s.enter(ctx, "open")
	if err != nil {
		return err
	}
	defer leave()
	began := time.Now()
	got, err := every(ctx, s.store, "open", s.openNode)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, a := range got {
		if a.err != nil {
			errs = append(errs, a.err)
			s.nodes[a.node] = nil
		} else {
			s.adoptLocked(a.node, a.value)
		}
	}
	if len(errs) > len(s.nodes)-s.store.majority() {
		return s.store.failure("open", errs, false)
	}
	s.opened, s.gone = began, false
	return nil
}

// enter waits until nothing else opens sessions of servers. A server takes the last one for the one that knows its claims.
func (s *session) enter(ctx context.Context, op string) (leave func(), err error) {
	select {
	case s.turn <- struct{}{}:
		return func() { <-s.turn }, nil
	case <-ctx.Done():
		return nil, s.store.errorf("%s: %w: %w", op, driver.ErrUnavailable, ctx.Err())
	}
}

// openNode opens the session on one server.
func (s *session) openNode(ctx context.Context, node int) (driver.Session, error) {
	s.mu.Lock()
	last := s.last[node]
	s.mu.Unlock()
	ses, _, err := s.store.nodes[node].Open(ctx, driver.OpenRequest{Shard: "0", ID: s.id, Before: last, TTL: s.ttl})
	return ses, err
}

// adoptLocked takes over a session that was opened on a server. s.mu must be held.
func (s *session) adoptLocked(node int, ses driver.Session) {
	s.nodes[node], s.last[node] = ses, ses
	if foreign.Fresh(ses) {
		s.loseAllLocked(node)
	}
}

// reopen opens the session on the servers that have none: those that were down, and those that ended it.
// A majority has kept it.
func (s *session) reopen(ctx context.Context, alive []bool) (errs []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.nodes {
		if s.nodes[i] != nil || s.gone {
			continue
		}
		s.mu.Unlock()
		bound, cancel := context.WithTimeout(ctx, s.patience()/2)
		ses, err := s.openNode(bound, i)
		cancel()
		s.mu.Lock()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.adoptLocked(i, ses)
		alive[i] = true
	}
	return errs
}

// confirmed are the claims of a reclaim that a server has, by its session of that time.
type confirmed struct {
	kept []bool
	by   driver.Session
}

// Reclaim implements driver.Session. It only confirms what a majority has.
func (s *session) Reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	all, asked := s.reclaimed(held)
	got, err := every(ctx, s.store, "reclaim", func(ctx context.Context, node int) (confirmed, error) {
		ses, err := s.node(node)
		if err != nil {
			return confirmed{}, err
		}
		kept, err := ses.Reclaim(ctx, asked, last)
		return confirmed{kept, ses}, err
	})
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, a := range got {
		if a.err != nil {
			errs = append(errs, a.err)
		}
	}
	if len(errs) > len(s.nodes)-s.store.majority() {
		return nil, s.store.failure("reclaim", errs, false)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make([]bool, len(held))
	for i, c := range all {
		votes := 0
		for _, a := range got {
			if a.err != nil || s.nodes[a.node] != a.value.by {
				continue
			}
			if c.votes[a.node] = a.value.kept[i]; c.votes[a.node] {
				votes++
			}
		}
		kept[i] = votes >= s.store.majority() && !c.lost
		if c.granted = kept[i]; c.since.Before(s.opened) {
			c.since = s.opened // Open has extended its keys
		}
	}
	return kept, nil
}

// reclaimed returns the claims of a reclaim, and what servers are asked for. From now on a claim is known that was not.
func (s *session) reclaimed(held []driver.Held) (all []*claim, asked []driver.Held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range held {
		c := s.knownLocked(&h.Claim)
		all, asked = append(all, c), append(asked, driver.Held{Claim: *c.onServers(), Token: h.Token})
	}
	return all, asked
}

// knownLocked returns what is known of a claim, from now on if nothing was. s.mu must be held.
func (s *session) knownLocked(c *driver.Claim) *claim {
	one := s.claims[c.Seq]
	if one == nil {
		one = &claim{Claim: *c, try: s.doubts, votes: make([]bool, len(s.nodes))}
		s.claims[c.Seq] = one
	}
	return one
}
