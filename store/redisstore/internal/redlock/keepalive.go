// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// healAtOnce is how many claims are put back on a server at once, and healMost how many in one renewal.
const (
	healAtOnce = 8
	healMost   = 1000
)

// renewed is what the renewal of a session on one server came to.
type renewed struct {
	// none is set if no session is open on the server.
	none   bool
	broken []uint64
}

// KeepAlive implements driver.Session.
func (s *session) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	leave, err := s.enter(ctx, "keep alive")
	if err != nil {
		return driver.Renewal{}, err
	}
	defer leave()
	began := time.Now()
	got, err := every(ctx, s.store, "keep alive", s.renewNode)
	if err != nil {
		return driver.Renewal{}, err
	}
	var errs []error
	alive := make([]bool, len(s.nodes))
	lost := 0
	s.mu.Lock()
	gone := s.gone
	for _, a := range got {
		switch {
		case a.value.none:
		case a.err == nil:
			alive[a.node] = true
			s.loseBrokenLocked(a.node, a.value.broken)
		case errors.Is(a.err, driver.ErrGone):
			lost++
			s.nodes[a.node] = nil
			s.loseAllLocked(a.node)
		default:
			errs = append(errs, a.err)
		}
	}
	s.mu.Unlock()
	if gone || lost >= s.store.majority() {
		return driver.Renewal{}, s.ended("keep alive")
	}
	errs = append(errs, s.reopen(ctx, alive)...)
	if len(errs) > len(s.nodes)-s.store.majority() {
		return driver.Renewal{}, s.store.failure("keep alive", errs, false)
	}
	s.heal(ctx, alive)
	return s.judge(alive, began)
}

// renewNode renews the session on a server.
func (s *session) renewNode(ctx context.Context, node int) (renewed, error) {
	s.mu.Lock()
	ses := s.nodes[node]
	s.mu.Unlock()
	if ses == nil {
		return renewed{none: true}, nil
	}
	r, err := ses.KeepAlive(ctx)
	return renewed{broken: r.Broken}, err
}

// loseAllLocked takes back the votes of a server that has none of the claims. s.mu must be held.
func (s *session) loseAllLocked(node int) {
	for _, c := range s.claims {
		s.loseLocked(c, node)
	}
}

// loseBrokenLocked takes back the votes of a server for the claims that it has not got, by their numbers on servers. s.mu
// must be held.
func (s *session) loseBrokenLocked(node int, broken []uint64) {
	for _, seq := range broken {
		if c := s.claims[seq/tries]; c != nil && c.onServers().Seq == seq {
			s.loseLocked(c, node)
		}
	}
}

// loseLocked takes back the vote of a server for a claim. s.mu must be held.
func (s *session) loseLocked(c *claim, node int) {
	c.votes[node] = false
	c.lost = c.lost || c.granted && c.has(nil) < s.store.majority()
}

// heal puts claims on servers that have not got them, as far as a majority has or may have had them
// without a gap.
func (s *session) heal(ctx context.Context, alive []bool) {
	type job struct {
		c    *claim
		node int
	}
	var jobs []job
	s.mu.Lock()
	for _, c := range s.claims {
		if !c.granted || c.lost || time.Since(c.since) > s.ttl-drift(s.ttl) {
			continue
		}
		for i, up := range alive {
			if up && !c.votes[i] && len(jobs) < healMost {
				jobs = append(jobs, job{c, i})
			}
		}
	}
	s.mu.Unlock()
	end := time.Now().Add(s.patience())
	ctx, cancel := context.WithDeadline(ctx, end.Add(s.patience()))
	defer cancel()
	var all sync.WaitGroup
	slots := make(chan struct{}, healAtOnce)
	for _, j := range jobs {
		slots <- struct{}{}
		if time.Now().After(end) {
			break // the rest is for the next renewal
		}
		all.Go(func() { s.put(ctx, j.c, j.node); <-slots })
	}
	all.Wait()
}

// put attempts a claim that is held on one more server, and takes it back if the claim was withdrawn in
// between.
func (s *session) put(ctx context.Context, c *claim, node int) {
	s.mu.Lock()
	ses, asked, held := s.nodes[node], c.onServers(), s.heldLocked(c)
	s.mu.Unlock()
	if ses == nil || !held {
		return
	}
	out, err := ses.Attempt(ctx, asked)
	s.mu.Lock()
	if held = s.heldLocked(c); held && err == nil && out.State == driver.Granted && s.nodes[node] == ses {
		c.votes[node] = true
	}
	s.mu.Unlock()
	if !held {
		_ = s.takeBack(ctx, node, asked, true)
	}
}

// heldLocked reports whether a claim is held and its withdrawal has not begun. s.mu must be held.
func (s *session) heldLocked(c *claim) bool {
	return s.claims[c.Seq] == c && c.granted && !c.lost && !s.gone
}

// has counts the servers that have the claim, of those that are up.
func (c *claim) has(alive []bool) (n int) {
	for i, has := range c.votes {
		if has && (alive == nil || alive[i]) {
			n++
		}
	}
	return n
}

// judge decides which claims still have a majority. If a claim may still have one on servers that did not
// answer, the renewal failed and is tried again: for half of the TTL, because all other claims would be lost
// with the session.
func (s *session) judge(alive []bool, began time.Time) (driver.Renewal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	renewal := driver.Renewal{TTL: s.ttl - drift(s.ttl)}
	var doubtful *claim
	for seq, c := range s.claims {
		switch {
		case !c.granted, !c.lost && c.since.After(began): // granted in the meantime
			continue
		case !c.lost && c.has(alive) >= s.store.majority():
			c.since = began
			continue
		case !c.lost && time.Since(c.since) < s.ttl/2:
			doubtful = c
			continue
		}
		c.lost = true
		renewal.Broken = append(renewal.Broken, seq)
	}
	if doubtful != nil {
		return driver.Renewal{}, s.store.errorf("keep alive: too few servers that have lock %q answered: %w", doubtful.Name, driver.ErrUnavailable)
	}
	return renewal, nil
}
