// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/quorum/internal/vote"
)

type bodyKey struct {
	shard string
	id    driver.SessionID
}

// body is a session over all nodes as this process knows it. It outlives the
// handles that Open returns: whoever opens the session again, after a loss of
// memory, goes on with what is known of every node.
//
// One mutex guards it all; it is never held during a call.
type body struct {
	s   *Store
	key bodyKey
	ttl time.Duration

	mu    sync.Mutex
	links []*link
	opens int // how often it was opened
	// lostAt is how often it had been opened when a majority turned out to have
	// forgotten it: handles from before are of an earlier incarnation.
	lostAt  int
	ended   bool // a majority said so; only Open begins it anew
	closed  bool
	refused error // somebody uses a node with another list
	// base is when the renewal was sent that the core counts from. A node counts
	// only if it was kept since: otherwise it may end the session earlier than
	// the core believes.
	base   stamp
	clock  stamp // the last one used
	wishes map[uint64]*wish
	buried map[uint64]struct{}
	// mended are broken claims whose withdrawal found that: a node may still be
	// telling of them, in an answer from before. Operators break few.
	mended map[uint64]struct{}
	groups map[vote.Group]int // of the claims that have won, how many on which nodes
}

// stamp orders the moments at which renewals are sent. It is a count, not a time:
// two calls at the same instant are still one after the other.
type stamp int64

// now returns the stamp of this moment. Wants mu.
func (b *body) now() stamp {
	b.clock++
	return b.clock
}

// session is what Open returns: a handle on a body.
type session struct {
	b      *body
	opened int
}

var _ driver.Session = (*session)(nil)

// Open implements driver.Store. It returns when a majority has opened the session
// and the others have had as long again to say that they know another list.
func (s *Store) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Life, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.Life{}, ended("open", err)
	}
	if req.TTL <= 0 || req.TTL < s.caps.MinTTL || s.caps.MaxTTL > 0 && req.TTL > s.caps.MaxTTL {
		return nil, driver.Life{}, fmt.Errorf("quorum: TTL %v is not within %v and %v, which all nodes allow: %w",
			req.TTL, s.caps.MinTTL, s.caps.MaxTTL, driver.ErrRefused)
	}
	b := s.body(req)
	life, err := b.open(ctx)
	if err != nil {
		return nil, driver.Life{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opens++
	return &session{b, b.opens}, life, nil
}

// body returns the body of a session, made if there is none.
func (s *Store) body(req driver.OpenRequest) *body {
	key := bodyKey{req.Shard, req.ID}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.bodies[key]
	if b == nil || b.isEnded() {
		b = &body{s: s, key: key, wishes: map[uint64]*wish{}, buried: map[uint64]struct{}{}, mended: map[uint64]struct{}{}, groups: map[vote.Group]int{}}
		for n := range s.nodes {
			b.links = append(b.links, newLink(b, n, s.bodies[key]))
		}
		s.bodies[key] = b
	}
	b.mu.Lock()
	b.ttl = req.TTL
	b.mu.Unlock()
	return b
}

func (b *body) isEnded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended || b.closed
}

// drop forgets a body that is closed.
func (s *Store) drop(b *body) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bodies[b.key] == b {
		delete(s.bodies, b.key)
	}
}

// enter begins a call: it returns with the body locked, or an error.
func (s *session) enter(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return ended(op, err)
	}
	s.b.mu.Lock()
	if err := s.lost(); err != nil {
		s.b.mu.Unlock()
		return fmt.Errorf("quorum: %s: %w", op, err)
	}
	return nil
}

// lost says why the session is no longer what it was. Wants mu.
func (s *session) lost() error {
	switch b := s.b; {
	case b.refused != nil:
		return b.refused
	case s.opened <= b.lostAt:
		return driver.ErrForgotten
	case b.ended || b.closed:
		return driver.ErrGone
	}
	return nil
}

// judge looks whether a majority can no longer keep the session. Wants mu.
func (b *body) judge() {
	gone, forgot := 0, 0
	for _, l := range b.links {
		if l.gone {
			gone++
		}
		if l.forgot {
			forgot++
		}
	}
	spare := len(b.links) - b.s.majority()
	switch {
	case gone > spare:
		b.ended = true
	case gone+forgot > spare && forgot > 0:
		b.lostAt = b.opens
	default:
		return
	}
	for _, w := range b.wishes {
		w.wake()
	}
}

// errs collects what went wrong on nodes, and says what it means for all.
type errs struct {
	list    []error
	unknown bool
}

func (e *errs) add(name string, err error) {
	if err == nil {
		return
	}
	e.list = append(e.list, fmt.Errorf("node %s: %w", name, err))
	e.unknown = e.unknown || errors.Is(err, driver.ErrUnknown)
}

// say returns that too few nodes answered. What each said is text only: that one
// node's session is gone does not mean that the session is.
func (e *errs) say(op string) error {
	kind := driver.ErrUnavailable
	if e.unknown {
		kind = driver.ErrUnknown
	}
	return fmt.Errorf("quorum: %s: too few nodes answered: %w: %v", op, kind, errors.Join(e.list...))
}
