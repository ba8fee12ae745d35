// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
	"github.com/fencelock/fencelock/internal/timing"
)

// loop keeps the session alive until it ends.
func (s *session) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	next := s.spread(clock.Instant(s.deadline.Load()).Add(-s.trusted()))
	for {
		s.renewAt.Store(int64(next))
		timer.Reset(next.Sub(s.c.clock.Now()))
		select {
		case <-s.ctx.Done():
			return
		case <-timer.C:
		case <-s.wake:
		}
		s.renewAt.Store(math.MaxInt64)
		if s.retire() {
			return
		}
		sent, ok := s.renew()
		if !ok {
			return
		}
		// A renewal that failed before, or that a busy machine sent late, was sent together with those of
		// other sessions. Counting from when it was due keeps the next ones apart.
		next = min(next, sent).Add(timing.RenewAfter(s.trusted(), rand.Float64()))
		if next < sent.Add(s.trusted()/30) {
			next = s.spread(sent)
		}
	}
}

// spread returns when to renew next after a call that other sessions probably sent at the same time.
func (s *session) spread(sent clock.Instant) clock.Instant {
	now := s.c.clock.Now()
	return now.Add(timing.RenewSpread(sent.Add(timing.RenewAfter(s.trusted(), 0)).Sub(now), rand.Float64()))
}

// renew keeps the session alive: it goes on trying inside the trusted time. Only the
// deadline ends it, or the store, by answering that the session has ended or is refused.
// Any other error decides nothing: the session lives on the server, and a password that
// is being replaced is accepted a moment later.
func (s *session) renew() (sent clock.Instant, ok bool) {
	for failures := 1; ; failures++ {
		left := clock.Instant(s.deadline.Load()).Sub(s.c.clock.Now())
		sent, err := s.renewOnce(left)
		switch {
		case err == nil:
			return sent, true
		case s.ctx.Err() != nil, s.endIfGone(err):
			return sent, false
		case errors.Is(err, driver.ErrRefused):
			s.end(s.c.lost(SessionEnded, err))
			return sent, false
		}
		s.doubt()
		s.c.emitSession(s, SessionRenewalFailed, left, err)
		trust := s.trusted()
		if !Sleep(s.ctx, timing.Backoff(failures, trust/100, trust/12, rand.Float64())) {
			return sent, false
		}
	}
}

// renewOnce makes one try with left of the trusted time: a keep-alive, or a resume if
// the store lost its data.
func (s *session) renewOnce(left time.Duration) (clock.Instant, error) {
	s.sh.mu.Lock()
	drv, lostData := s.drv, s.state.lostData()
	s.sh.mu.Unlock()
	if !lostData {
		sent, err := s.keepAlive(drv, left)
		if !errors.Is(err, driver.ErrReset) {
			return sent, err
		}
		s.moveOn(sessionReset)
		s.c.emitSession(s, SessionReset, 0, driver.ErrReset)
	}
	return s.resume()
}

func (s *session) keepAlive(drv driver.Session, left time.Duration) (clock.Instant, error) {
	ctx, cancel := context.WithTimeout(s.ctx, timing.TryTimeout(s.trusted(), left))
	defer cancel()
	sent := s.c.clock.Sent()
	renewal, err := drv.KeepAlive(ctx)
	if err == nil && !s.confirm(sent, renewal) {
		return sent, context.Cause(s.ctx)
	}
	return sent, err
}

// moveOn changes the state of a live session.
func (s *session) moveOn(to sessionState) {
	s.sh.mu.Lock()
	defer s.sh.mu.Unlock()
	if s.state.live() {
		s.state = to
	}
	if !s.steadyLocked() {
		s.recallAllLocked()
	}
}

// confirm takes the answer to a keep-alive. A success that comes after the
// deadline is too late: the holder was notified, or is about to be.
func (s *session) confirm(sent clock.Instant, renewal driver.Renewal) bool {
	s.sh.mu.Lock()
	if !s.state.live() || s.c.clock.Now() >= clock.Instant(s.deadline.Load()) {
		s.sh.mu.Unlock()
		s.end(s.c.lost(Unrenewed))
		return false
	}
	err := s.renewedLocked(sent, renewal)
	var broken []*grant
	if len(renewal.Broken) > 0 {
		broken = s.brokenGrantsLocked(renewal.Broken)
	}
	s.sh.mu.Unlock()
	if err != nil {
		s.end(s.c.lost(SessionEnded, err))
		return false
	}
	loseAll(broken, broken, s.c.lost(ForceUnlocked), 0)
	return true
}

// brokenGrantsLocked finds the grants an operator broke. The store lists a broken
// claim until it is withdrawn; a listed claim that is not a grant of the session any
// more is being withdrawn already. sh.mu must be held.
func (s *session) brokenGrantsLocked(seqs []uint64) (broken []*grant) {
	set := make(map[uint64]struct{}, len(seqs))
	for _, seq := range seqs {
		set[seq] = struct{}{}
	}
	for g := s.grants; g != nil; g = g.next {
		if _, ok := set[g.claim.Seq]; ok {
			broken = append(broken, g)
		}
	}
	return broken
}

// renewedLocked moves the deadline after a success. sh.mu must be held.
func (s *session) renewedLocked(sent clock.Instant, renewal driver.Renewal) error {
	trust := timing.Trust(renewal.TTL, s.c.opts.Drift, s.c.opts.Margin)
	if trust <= 0 {
		return fmt.Errorf("the store allows a TTL of %v, too short for Options.Drift and Margin: %w", renewal.TTL, driver.ErrRefused)
	}
	s.doubtful = false
	s.trust.Store(int64(trust))
	s.deadline.Store(int64(sent.Add(trust))) // even if the store has shortened the TTL
	if s.timer != nil {
		s.timer.Reset(s.untilCheckLocked(s.c.clock.Now()))
	}
	return nil
}
