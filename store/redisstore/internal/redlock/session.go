// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/foreign"
)

// session is a session on every server that could be reached.
type session struct {
	store *Store
	id    driver.SessionID
	ttl   time.Duration

	// closed is set by Close: the session is not the same one if it is opened again.
	closed atomic.Bool

	// turn is taken by what opens sessions of servers.
	turn chan struct{}

	mu sync.Mutex
	// nodes are the sessions of the servers, nil where none is open, and last those that were open there last.
	nodes, last []driver.Session
	claims      map[uint64]*claim
	// opened is when the session was last opened.
	opened time.Time
	// gone is set when a majority has ended the session.
	gone bool
	// doubts counts the attempts that were given up while they or their withdrawals may still arrive.
	doubts uint64
	// dead are claims that must not be granted any more, the last ones.
	dead []uint64
}

// tries is how many numbers a claim has on the servers, so that an attempt that arrives late is never
// taken for the next one. A double is exact for 2^37 claims.
const tries = 1 << 16

// mostDead bounds the claims that are remembered as dead.
const mostDead = 1024

// claim is what this process knows of a claim.
type claim struct {
	driver.Claim
	try uint64
	// votes are the servers that have it.
	votes   []bool
	granted bool
	// lost is set if a granted claim lost its majority. Another caller may have had the lock since, so the claim stays
	// broken even if servers would grant it.
	lost bool
	// doubted is set if an attempt ended before its answers.
	doubted bool
	// since is when the majority was last complete.
	since time.Time
}

// onServers is the claim as servers know it.
func (c *claim) onServers() *driver.Claim {
	one := c.Claim
	one.Seq = one.Seq*tries + c.try%tries
	return &one
}

// ended is the error of a session that a majority has ended.
func (s *session) ended(op string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.goneLocked(op)
}

// goneLocked is ended with s.mu held.
func (s *session) goneLocked(op string) error {
	s.gone = true
	return s.store.errorf("%s: a majority of servers has ended the session, or lost it: %w", op, driver.ErrGone)
}

// node returns the session of a server, or an error if none is open.
func (s *session) node(i int) (driver.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes[i] == nil {
		return nil, s.store.errorf("server %d has no session yet: %w", i+1, driver.ErrUnavailable)
	}
	return s.nodes[i], nil
}

// Await implements driver.Session: nothing is published.
func (s *session) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return driver.Outcome{}, s.store.errorf("await: %w", err)
	}
	return driver.Outcome{State: driver.Busy, PollAfter: s.ttl}, nil
}

// Withdraw implements driver.Session. Servers that do not answer free the claim with their next
// renewal.
func (s *session) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	s.mu.Lock()
	c := s.claims[w.Seq]
	if c == nil {
		c = &claim{Claim: driver.Claim{Seq: w.Seq, Name: w.Name}, try: s.doubts}
	}
	held, lost := c.granted, c.lost
	c.granted = false
	seq := c.onServers().Seq
	if w.Tombstone {
		s.dead = append(s.dead[max(0, len(s.dead)-mostDead+1):len(s.dead):len(s.dead)], w.Seq)
	}
	s.mu.Unlock()
	answers := ask(ctx, s.store, s.patience(), func(ctx context.Context, node int) (driver.Removed, error) {
		return s.withdrawFrom(ctx, node, driver.Withdrawal{Seq: seq, Name: w.Name, KeepFor: w.KeepFor, Tombstone: w.Tombstone})
	})
	count, gone := map[driver.Removed]int{}, 0
	var errs []error
	for n := 1; n <= len(s.nodes); n++ {
		select {
		case a := <-answers:
			switch {
			case a.err == nil:
				count[a.value]++
			case errors.Is(a.err, driver.ErrGone):
				gone++
				fallthrough
			default:
				errs = append(errs, a.err)
			}
		case <-ctx.Done():
			return driver.WasAbsent, s.store.errorf("withdraw: %w: %w", driver.ErrUnknown, ctx.Err())
		}
		if n-len(errs) >= s.store.majority() && (count[driver.WasGranted] >= s.store.majority() || n == len(s.nodes)) {
			break
		}
	}
	if gone >= s.store.majority() {
		return driver.WasAbsent, s.ended("withdraw")
	}
	if len(errs) > len(s.nodes)-s.store.majority() {
		return driver.WasAbsent, s.store.failure("withdraw", errs, len(errs) < len(s.nodes))
	}
	s.mu.Lock()
	delete(s.claims, w.Seq)
	s.mu.Unlock()
	if lost {
		return driver.WasBroken, nil
	}
	return s.found(count, gone, held), nil
}

// found is what a withdrawal found, by the answers of the servers, of which some had lost the session and
// the claim. One that is repeated may meet the first on a server that is slow, where it then finds nothing
// that it knew of.
func (s *session) found(count map[driver.Removed]int, gone int, held bool) driver.Removed {
	switch {
	case count[driver.WasGranted] >= s.store.majority():
		return driver.WasGranted
	case held && count[driver.WasBroken]+gone > 0, count[driver.WasBroken] >= s.store.majority():
		return driver.WasBroken
	}
	return driver.WasAbsent
}

// patience is how long one server may take to answer. Several are asked at once, and one that is
// down must not cost more than a part of the TTL.
func (s *session) patience() time.Duration { return max(s.ttl/10, 500*time.Millisecond) }

// withdrawFrom withdraws a claim, by its number on servers, from one of them. If that fails, the server's next renewal
// frees the claim.
func (s *session) withdrawFrom(ctx context.Context, node int, w driver.Withdrawal) (driver.Removed, error) {
	ses, err := s.node(node)
	found := driver.WasAbsent
	if err == nil {
		found, err = ses.Withdraw(ctx, w)
	}
	if err != nil {
		s.drop(node, w.Seq)
	}
	return found, err
}

// drop makes the next renewal of a server free a claim that is withdrawn, by its number on servers.
func (s *session) drop(node int, seq uint64) {
	s.mu.Lock()
	ses := s.last[node]
	s.mu.Unlock()
	foreign.Drop(ses, seq)
}

// Close implements driver.Session. A server that is down ends the session after its TTL.
func (s *session) Close(ctx context.Context) error {
	s.closed.Store(true)
	s.mu.Lock()
	s.gone = true // nothing is granted any more
	s.mu.Unlock()
	got, err := every(ctx, s.store, "close", func(ctx context.Context, node int) (struct{}, error) {
		ses, err := s.node(node)
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, ses.Close(ctx)
	})
	if err != nil {
		return err
	}
	var errs []error
	for _, a := range got {
		if a.err != nil {
			errs = append(errs, a.err)
		}
	}
	if len(errs) > len(s.nodes)-s.store.majority() {
		return s.store.failure("close", errs, len(errs) < len(s.nodes))
	}
	return nil
}
