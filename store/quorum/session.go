// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/quorum/internal/vote"
)

type sessionKey struct {
	shard string
	id    driver.SessionID
}

// quorumSession is a session over all nodes as this process knows it. It outlives the
// handles that Open returns: an Open of the session after a data loss goes on with what is known of every node.
//
// One mutex guards it all; it is never held during a call.
type quorumSession struct {
	s   *Store
	key sessionKey
	ttl time.Duration

	mu    sync.Mutex
	links []*nodeSession
	opens int // how often it was opened
	// lostAt is how often it had been opened when a majority turned out to have
	// lost it: handles from before are of an earlier incarnation.
	lostAt  int
	ended   bool // a majority answered so; only Open begins it again
	closed  bool
	refused error // another client uses a node with another list
	// base is when the renewal was sent that the core counts from. A node counts
	// only if it was kept since: otherwise it may end the session earlier than
	// the core believes.
	base       stamp
	clock      stamp // the last one used
	requests   map[uint64]*request
	tombstoned tombstones
	// withdrawnBroken are broken claims whose withdrawal found that: a node may still be
	// reporting them, in an answer from before. Operators break few.
	withdrawnBroken map[uint64]struct{}
	broken          int                // how many requests are broken and not withdrawn
	wanted          func(seq uint64)   // of the last Open
	groups          map[vote.Group]int // of the claims that have won, how many on which nodes
}

// stamp orders the moments at which renewals are sent. It is a count, not a time:
// two calls at the same instant are still one after the other.
type stamp int64

// nowLocked returns the stamp of this moment. b.mu must be held.
func (b *quorumSession) nowLocked() stamp {
	b.clock++
	return b.clock
}

// session is what Open returns: a handle on a quorumSession.
type session struct {
	b      *quorumSession
	opened int
}

var _ driver.Session = (*session)(nil)

// Open implements driver.Store. It returns when a majority has opened the session
// and the others have had as long again to answer that they know another list.
func (s *Store) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.Renewal{}, errNotStarted("open", err)
	}
	if req.TTL <= 0 || req.TTL < s.caps.MinTTL || s.caps.MaxTTL > 0 && req.TTL > s.caps.MaxTTL {
		return nil, driver.Renewal{}, fmt.Errorf("quorum: TTL %v is not within %v and %v, which all nodes allow: %w",
			req.TTL, s.caps.MinTTL, s.caps.MaxTTL, driver.ErrRefused)
	}
	if req.TTL <= s.opts.NodeTimeout {
		return nil, driver.Renewal{}, fmt.Errorf("quorum: TTL %v is not above NodeTimeout, %v: the session could end on a node while a call to the node is waited for;"+
			" use a longer TTL or a shorter NodeTimeout: %w", req.TTL, s.opts.NodeTimeout, driver.ErrRefused)
	}
	b := s.quorumSession(req)
	renewal, err := b.open(ctx)
	if err != nil {
		b.abandon()
		return nil, driver.Renewal{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opens++
	return &session{b, b.opens}, renewal, nil
}

// abandon closes and drops a session that could not be opened, unless there is a handle
// on it from before. The next try has another id.
func (b *quorumSession) abandon() {
	b.mu.Lock()
	never := b.opens == 0
	b.closed = b.closed || never
	b.mu.Unlock()
	if never {
		b.s.drop(b)
		b.closeAll()
	}
}

// quorumSession returns the session over all nodes, and creates it if it does not exist or
// has ended.
func (s *Store) quorumSession(req driver.OpenRequest) *quorumSession {
	key := sessionKey{req.Shard, req.ID}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.sessions[key]
	if b == nil || b.isEnded() {
		b = &quorumSession{s: s, key: key, requests: map[uint64]*request{}, withdrawnBroken: map[uint64]struct{}{}, groups: map[vote.Group]int{}}
		for n := range s.nodes {
			b.links = append(b.links, newNodeSession(b, n, s.sessions[key]))
		}
		s.sessions[key] = b
		s.background.sessions(true)
	}
	b.mu.Lock()
	b.ttl, b.wanted = req.TTL, req.Contended
	b.mu.Unlock()
	return b
}

func (b *quorumSession) isEnded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended || b.overLocked()
}

// overLocked reports whether the session must not be opened again. b.mu must be held.
func (b *quorumSession) overLocked() bool { return b.closed || b.refused != nil }

// drop drops a session that is closed.
func (s *Store) drop(b *quorumSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[b.key] == b {
		delete(s.sessions, b.key)
		s.background.sessions(len(s.sessions) > 0)
	}
}

// enter begins a call: it returns with the session locked, or an error.
func (s *session) enter(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return errNotStarted(op, err)
	}
	s.b.mu.Lock()
	if err := s.lostLocked(); err != nil {
		s.b.mu.Unlock()
		return fmt.Errorf("quorum: %s: %w", op, err)
	}
	return nil
}

// lostLocked returns why the session is no longer what it was. s.b.mu must be held.
func (s *session) lostLocked() error {
	switch b := s.b; {
	case b.refused != nil:
		return b.refused
	case s.opened <= b.lostAt:
		return driver.ErrReset
	case b.ended || b.closed:
		return driver.ErrGone
	}
	return nil
}

// judgeLocked checks whether a majority can no longer keep the session. b.mu must be held.
func (b *quorumSession) judgeLocked() {
	ended, reset := 0, 0
	for _, l := range b.links {
		switch l.at {
		case vote.Ended:
			ended++
		case vote.Reset:
			reset++
		}
	}
	spare := len(b.links) - b.s.majority()
	switch {
	case ended > spare:
		b.ended = true
	case ended+reset > spare && reset > 0:
		b.lostAt = b.opens
	default:
		return
	}
	for _, w := range b.requests {
		w.wakeLocked()
	}
}

// errs collects what went wrong on nodes, and returns what it means for all.
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

// err returns that too few nodes answered. What each answered is text only: that one
// node's session is gone does not mean that the session is.
func (e *errs) err(op string) error {
	kind := driver.ErrUnavailable
	if e.unknown {
		kind = driver.ErrUnknown
	}
	return fmt.Errorf("quorum: %s: too few nodes answered: %w: %v", op, kind, errors.Join(e.list...))
}
