// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Attempt implements driver.Session. It returns as soon as a majority has granted, or cannot.
func (s *session) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	began := time.Now()
	one, asked, err := s.begin(c)
	if one == nil {
		return driver.Outcome{State: driver.Absent}, err
	}
	answers := ask(ctx, s.store, s.patience(), func(ctx context.Context, node int) (vote, error) {
		ses, err := s.node(node)
		if err != nil {
			return vote{}, err
		}
		out, err := ses.Attempt(ctx, asked)
		return vote{out, ses}, err
	})
	t := tally{votes: make([]driver.Session, len(s.nodes))}
	for !t.decided(s.store.majority()) {
		select {
		case a := <-answers:
			if t.add(a); t.granted >= s.store.majority() {
				s.granted(one, &t, began)
			}
		case <-ctx.Done():
			s.mu.Lock()
			one.doubted = true
			s.mu.Unlock()
			return driver.Outcome{}, s.store.errorf("attempt: %w: %w", driver.ErrUnknown, ctx.Err())
		}
	}
	out := t.outcome()
	if t.granted >= s.store.majority() {
		go s.late(one, asked, answers, t.open())
		return out, nil
	}
	s.mu.Lock()
	holds, doubted := one.granted, one.doubted
	s.mu.Unlock()
	failed := len(t.errs) > len(s.nodes)-s.store.majority()
	if failed && t.gone >= s.store.majority() {
		return driver.Outcome{}, s.ended("attempt")
	}
	if holds { // its majority may be complete again: a renewal decides
		return driver.Outcome{}, s.store.errorf("attempt: no majority has lock %q any more: %w", c.Name, driver.ErrUnknown)
	}
	doubt := s.retract(ctx, asked, &t)
	again := failed || out.State != driver.Absent // a claim that is absent must stay so under its number
	s.retire(one, again && (doubt || doubted || t.open() > 0))
	go s.undo(context.WithoutCancel(ctx), asked, answers, t.open())
	if failed {
		return driver.Outcome{}, s.store.failure("attempt", t.errs, false)
	}
	return out, nil
}

// begin notes that a claim is attempted, and returns it as servers know it, or nil if it must not
// be granted any more.
func (s *session) begin(c *driver.Claim) (*claim, *driver.Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return nil, nil, s.goneLocked("attempt")
	}
	if slices.Contains(s.dead, c.Seq) {
		return nil, nil, nil
	}
	one := s.knownLocked(c)
	if one.lost {
		return nil, nil, nil
	}
	return one, one.onServers(), nil
}

// granted notes the servers that have a claim, if they are still a majority. A server that ended its
// session since its answer may have lost the claim, so its vote is taken back.
func (s *session) granted(one *claim, t *tally, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, ses := range t.votes {
		if ses != nil && s.nodes[i] != ses {
			t.lose(i, s.store.errorf("server %d has ended its session since it granted: %w", i+1, driver.ErrUnavailable))
		}
	}
	if t.granted < s.store.majority() {
		return
	}
	if !one.granted {
		one.granted, one.since = true, began
	}
	for i, ses := range t.votes {
		one.votes[i] = one.votes[i] || ses != nil
	}
}

// late notes the votes that come after the majority was complete.
func (s *session) late(one *claim, asked *driver.Claim, answers <-chan answer[vote], n int) {
	for range n {
		a := <-answers
		s.mu.Lock()
		if a.err == nil && a.value.State == driver.Granted && s.nodes[a.node] == a.value.by {
			one.votes[a.node] = true
		}
		gone := s.claims[one.Seq] != one
		s.mu.Unlock()
		if gone { // it was withdrawn before the server had it
			s.drop(a.node, asked.Seq)
		}
	}
}

// retract withdraws a claim from the servers that granted it, and in the background from those that may
// have it. It reports whether a server may have it when retract returns, or may get a withdrawal of it
// later: withdrawals go on after ctx.
func (s *session) retract(ctx context.Context, asked *driver.Claim, t *tally) (doubt bool) {
	undoing := context.WithoutCancel(ctx)
	for _, i := range t.unknown {
		go func() { _ = s.takeBack(undoing, i, asked, true) }()
	}
	pending := make(chan error, len(t.votes))
	for i, ses := range t.votes {
		if ses != nil {
			go func() { pending <- s.takeBack(undoing, i, asked, false) }()
		}
	}
	for range t.granted {
		select {
		case err := <-pending:
			doubt = doubt || err != nil
		case <-ctx.Done():
			return true
		}
	}
	return doubt || len(t.unknown) > 0
}

// takeBack withdraws an attempt from one server.
func (s *session) takeBack(ctx context.Context, node int, asked *driver.Claim, tombstone bool) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience())
	defer cancel()
	_, err := s.withdrawFrom(ctx, node, driver.Withdrawal{Seq: asked.Seq, Name: asked.Name, Tombstone: tombstone})
	return err
}

// retire ends an attempt that was not granted. If it or its withdrawal may still arrive somewhere, the
// next attempt of the claim has another number: a late withdrawal would free its lock.
func (s *session) retire(one *claim, doubt bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims[one.Seq] == one {
		delete(s.claims, one.Seq)
	}
	if doubt {
		s.doubts++
	}
}

// undo withdraws a claim from the servers that answer after it was given up.
func (s *session) undo(ctx context.Context, asked *driver.Claim, answers <-chan answer[vote], n int) {
	for range n {
		a := <-answers
		if a.err == nil && a.value.State != driver.Granted {
			continue
		}
		_ = s.takeBack(ctx, a.node, asked, true)
	}
}

// vote is the answer of a server to an attempt, by its session of that time.
type vote struct {
	driver.Outcome
	by driver.Session
}

// tally counts the answers to an attempt.
type tally struct {
	votes          []driver.Session // those of the servers that granted
	unknown        []int            // the servers whose reply was lost
	granted, other int
	gone           int
	busy           *driver.Outcome
	errs           []error
}

func (t *tally) add(a answer[vote]) {
	switch {
	case a.err != nil:
		t.errs = append(t.errs, a.err)
		if errors.Is(a.err, driver.ErrUnknown) {
			t.unknown = append(t.unknown, a.node)
		}
		if errors.Is(a.err, driver.ErrGone) {
			t.gone++
		}
	case a.value.State == driver.Granted:
		t.votes[a.node] = a.value.by
		t.granted++
	default:
		t.other++
		if a.value.State == driver.Busy && (t.busy == nil || a.value.PollAfter < t.busy.PollAfter) {
			t.busy = &a.value.Outcome
		}
	}
}

// lose takes a vote back. The server may still have the claim.
func (t *tally) lose(node int, err error) {
	t.votes[node] = nil
	t.granted--
	t.errs = append(t.errs, err)
	t.unknown = append(t.unknown, node)
}

// open is how many servers have not answered yet.
func (t *tally) open() int { return len(t.votes) - t.granted - t.other - len(t.errs) }

// decided reports whether a majority has granted, or cannot any more.
func (t *tally) decided(majority int) bool {
	return t.granted >= majority || t.granted+t.open() < majority
}

// outcome is the answer of a majority.
func (t *tally) outcome() driver.Outcome {
	switch {
	case t.granted > t.other+len(t.errs)+t.open():
		return driver.Outcome{State: driver.Granted}
	case t.busy != nil:
		out := *t.busy
		for i := range out.Holders {
			out.Holders[i] = plain(out.Holders[i])
		}
		return out
	}
	return driver.Outcome{State: driver.Absent}
}
