// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
	"github.com/fencelock/fencelock/internal/timing"
)

// suspendTick is how often the deadline is compared with the clock even if
// nothing is due: timers stand still while the machine is suspended.
const suspendTick = 500 * time.Millisecond

// session is this process's liveness on one shard.
//
//	opening ──▶ open ──▶ ended
//	              │ ▲
//	   forgotten  ▼ │  resumed: opened again with the same id, all reclaimed
//
// One goroutine (run) opens it and keeps it alive; one timer (watch) ends it at
// the trusted deadline whatever that goroutine is doing. It carries every
// lease of the shard: a lease has neither goroutine nor timer.
type session struct {
	c        *Client
	sh       *shard
	id       driver.SessionID
	seq      atomic.Uint64
	deadline atomic.Int64 // clock.Instant; trusted before it. 0: ended
	trust    atomic.Int64 // time.Duration from send to deadline

	ctx    context.Context // ends with the session; its cause says why
	cancel context.CancelCauseFunc
	// attempts end with the session: Close must not wait for a slow store.
	attempts, withdrawals bound
	ready                 chan struct{} // closed when open or failed
	wake                  chan struct{} // makes the loop renew now

	forgotten bool // the store lost its memory and not all is reclaimed; the loop's

	// Guarded by sh.mu.
	drv       driver.Session
	open      bool
	gen       uint64 // counts how often drv was replaced
	openErr   error  // set before ready is closed
	cause     error  // why it ended
	grants    *grant
	users     int           // acquisitions that use it
	idleSince clock.Instant // when the last grant or user went
	ends      endHeap       // grants with an end of their own
	timer     *time.Timer
	debris    []driver.Withdrawal
	settling  bool
}

func newSession(sh *shard) *session {
	s := &session{c: sh.c, sh: sh, id: driver.NewSessionID(), ready: make(chan struct{}), wake: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.attempts.parent, s.attempts.timeout = s.ctx, sh.c.opts.CallTimeout
	s.withdrawals.parent, s.withdrawals.timeout = context.Background(), sh.c.opts.CallTimeout
	return s
}

// run is the session's goroutine.
func (s *session) run() {
	if err := s.start(); err != nil {
		s.sh.mu.Lock()
		if s.sh.session == s {
			s.sh.session = nil
		}
		if s.ctx.Err() != nil {
			err = context.Cause(s.ctx)
		}
		s.openErr = err
		opened := s.drv != nil
		s.sh.mu.Unlock()
		s.cancel(err)
		close(s.ready)
		if opened {
			s.farewell()
		}
		return
	}
	close(s.ready)
	s.c.emitSession(s, SessionOpened, 0, nil)
	s.loop()
	s.farewell()
}

// start opens the session in the store.
func (s *session) start() error {
	drv, life, sent, err := s.callOpen()
	if err != nil {
		return err
	}
	s.sh.mu.Lock()
	defer s.sh.mu.Unlock()
	s.drv = drv
	if err := s.renewed(sent, life); err != nil {
		return err
	}
	if s.sh.closed {
		return ErrClosed
	}
	s.open, s.idleSince = true, s.c.clock.Sent()
	s.timer = time.AfterFunc(s.untilCheck(s.c.clock.Now()), s.watch)
	return nil
}

func (s *session) callOpen() (driver.Session, driver.Life, clock.Instant, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.c.opts.CallTimeout)
	defer cancel()
	sent := s.c.clock.Sent()
	drv, life, err := s.c.store.Open(ctx, driver.OpenRequest{Shard: s.sh.id, ID: s.id, TTL: s.c.opts.TTL})
	return drv, life, sent, err
}

// renewed moves the deadline after a success. Wants sh.mu.
func (s *session) renewed(sent clock.Instant, life driver.Life) error {
	trust := timing.Trust(life.TTL, s.c.opts.Drift, s.c.opts.Margin)
	if trust <= 0 {
		return fmt.Errorf("the store allows a TTL of %v, too short for Options.Drift and Margin: %w", life.TTL, driver.ErrRefused)
	}
	s.trust.Store(int64(trust))
	s.deadline.Store(int64(sent.Add(trust))) // also if the store has shortened the TTL
	if s.timer != nil {
		s.timer.Reset(s.untilCheck(s.c.clock.Now()))
	}
	return nil
}

func (s *session) trusted() time.Duration { return time.Duration(s.trust.Load()) }

// loop keeps the session alive until it ends.
func (s *session) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	next := clock.Instant(s.deadline.Load()).Add(timing.RenewAfter(s.trusted(), rand.Float64()) - s.trusted())
	for {
		timer.Reset(next.Sub(s.c.clock.Now()))
		select {
		case <-s.ctx.Done():
			return
		case <-timer.C:
		case <-s.wake:
		}
		if s.retire() {
			return
		}
		sent, ok := s.renew()
		if !ok {
			return
		}
		next = sent.Add(timing.RenewAfter(s.trusted(), rand.Float64()))
	}
}

// renew keeps the session alive: it goes on trying inside the trusted time, and
// only a definite answer or the deadline ends it.
func (s *session) renew() (sent clock.Instant, ok bool) {
	for failures := 1; ; failures++ {
		s.sh.mu.Lock()
		drv, trust := s.drv, s.trusted()
		s.sh.mu.Unlock()
		left := clock.Instant(s.deadline.Load()).Sub(s.c.clock.Now())
		var err error
		if !s.forgotten {
			ctx, cancel := context.WithTimeout(s.ctx, timing.TryTimeout(trust, left))
			var life driver.Life
			sent = s.c.clock.Sent()
			life, err = drv.KeepAlive(ctx)
			cancel()
			if err == nil {
				return sent, s.confirm(sent, life)
			}
		}
		if s.forgotten || errors.Is(err, driver.ErrForgotten) {
			// Until all is reclaimed a keep-alive would confirm leases that the
			// store does not know.
			s.forgotten = true
			if sent, err = s.resume(); err == nil {
				s.forgotten = false
				return sent, true
			}
		}
		if s.ctx.Err() != nil {
			return sent, false
		}
		if s.gone(err); errors.Is(err, driver.ErrGone) {
			return sent, false
		}
		if !transient(err) && !errors.Is(err, driver.ErrForgotten) {
			s.end(lost(err))
			return sent, false
		}
		s.c.emitSession(s, SessionRenewalFailed, left, err)
		if !sleep(s.ctx, timing.Backoff(failures, trust/100, trust/12, rand.Float64())) {
			return sent, false
		}
	}
}

// confirm takes the answer to a keep-alive. A success that comes after the
// deadline is too late: the holder was told, or is about to be.
func (s *session) confirm(sent clock.Instant, life driver.Life) bool {
	s.sh.mu.Lock()
	if !s.open || s.c.clock.Now() >= clock.Instant(s.deadline.Load()) {
		s.sh.mu.Unlock()
		s.end(lost(ErrUnrenewed))
		return false
	}
	err := s.renewed(sent, life)
	var broken []*grant
	if len(life.Broken) > 0 {
		broken = s.brokenGrants(life.Broken)
	}
	s.sh.mu.Unlock()
	if err != nil {
		s.end(lost(err))
		return false
	}
	loseAll(broken, broken, lost(ErrBroken))
	return true
}

// brokenGrants finds the grants an operator broke. The store lists a broken
// claim until it is withdrawn; one that is no grant of ours any more is being
// withdrawn already. Wants sh.mu.
func (s *session) brokenGrants(seqs []uint64) (broken []*grant) {
	for g := s.grants; g != nil; g = g.next {
		if slices.Contains(seqs, g.claim.Seq) {
			broken = append(broken, g)
		}
	}
	return broken
}

// watch runs on the timer: it ends what is due and sets the timer again.
func (s *session) watch() {
	now := s.c.clock.Now()
	if now >= clock.Instant(s.deadline.Load()) {
		s.end(lost(ErrUnrenewed))
		return
	}
	s.sh.mu.Lock()
	var ended, over []*grant
	for len(s.ends) > 0 && s.ends[0].due <= now {
		g := heap.Pop(&s.ends).(*grant)
		if !g.told {
			// Told now, withdrawn a margin later, as the store would end it.
			g.told = true
			ended = append(ended, g)
			g.due = g.due.Add(g.margin(s.c.opts.Margin))
			heap.Push(&s.ends, g)
		} else {
			over = append(over, g)
		}
	}
	if s.open {
		s.timer.Reset(s.untilCheck(now))
	}
	s.sh.mu.Unlock()
	loseAll(ended, over, lost(ErrExpired))
}

// untilCheck is when watch must run next. Wants sh.mu.
func (s *session) untilCheck(now clock.Instant) time.Duration {
	d := min(clock.Instant(s.deadline.Load()).Sub(now), suspendTick)
	if len(s.ends) > 0 {
		d = min(d, s.ends[0].due.Sub(now))
	}
	return max(d, 0)
}

// leave ends the use of the session by an acquisition.
func (s *session) leave() {
	s.sh.mu.Lock()
	s.users--
	s.idleSince = s.c.clock.Sent()
	s.sh.mu.Unlock()
}

// retire lets a session go that nobody has used for a TTL: an idle process
// costs the store nothing.
func (s *session) retire() bool {
	return s.endIf(ErrClosed, func() bool {
		return s.grants == nil && s.users == 0 && !s.settling && s.c.clock.Sent().Sub(s.idleSince) >= s.trusted()
	})
}

// end ends the session once.
func (s *session) end(cause error) {
	if !s.endIf(cause, func() bool { return true }) {
		s.cancel(cause)
	}
}

// endIf ends an open session if the condition holds, and says whether it did: it
// tells every holder first, then makes room for waiters, and only then talks to
// hooks and logs, which may be slow.
func (s *session) endIf(cause error, condition func() bool) bool {
	s.sh.mu.Lock()
	if !s.open || !condition() {
		s.sh.mu.Unlock()
		return false
	}
	s.open, s.cause = false, cause
	s.deadline.Store(0)
	if s.sh.session == s {
		s.sh.session = nil
	}
	s.timer.Stop()
	grants := s.grants
	s.grants, s.ends = nil, nil
	s.sh.mu.Unlock()
	s.cancel(cause)
	var told []*Lease
	for g := grants; g != nil; g = g.next {
		told = g.tell(cause, told)
	}
	for g := grants; g != nil; g = g.next {
		g.vacate()
	}
	if errors.Is(cause, ErrLost) {
		s.c.emitSession(s, SessionLost, 0, cause)
	} else {
		s.c.emitSession(s, SessionClosed, 0, nil)
	}
	for _, l := range told {
		l.emit(LeaseLost, cause)
	}
	return true
}

// gone ends the session if err says that the store has ended it: the holders
// must not go on until the next keep-alive finds out.
func (s *session) gone(err error) {
	if errors.Is(err, driver.ErrGone) {
		s.end(lost(ErrEnded))
	}
}

// farewell tells the store that the session has ended, so that nobody waits for a
// TTL. It is a courtesy: the store would find out by itself. After a loss it comes
// a margin later: a store that answers again just then would give the lock to
// another while the holder, told a moment ago, is still stopping.
func (s *session) farewell() {
	if cause := context.Cause(s.ctx); errors.Is(cause, ErrLost) && !errors.Is(cause, ErrEnded) {
		t := time.NewTimer(s.c.opts.Margin)
		defer t.Stop()
		select {
		case <-t.C:
		case <-s.c.done:
		}
	}
	s.sh.mu.Lock()
	drv := s.drv
	s.sh.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), s.c.opts.CallTimeout)
	defer cancel()
	_ = drv.Close(ctx)
}

func (c *Client) emitSession(s *session, kind EventKind, took time.Duration, err error) {
	if c.watched() {
		c.emit(Event{Kind: kind, Shard: s.sh.id, Session: s.id, Took: took, Err: err})
	}
}

// sleep waits, and says whether ctx let it.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
