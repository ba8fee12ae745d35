// SPDX-License-Identifier: Apache-2.0

package core

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/callctx"
	"github.com/fencelock/fencelock/internal/clock"
	"github.com/fencelock/fencelock/internal/timing"
)

// session is this process's liveness on one shard.
//
//	opening ──▶ open ◀── all leases are reclaimed ──┐
//	             │                                  │
//	             ▼ the store lost its data          │
//	           reset ── opened again, same id ──▶ resuming
//	             │                                  │
//	             ▼ also from open                   ▼
//	           ended                      ended, unreclaimed
//
// A session that cannot be opened stays in opening, and its context has ended.
//
// One goroutine (run) opens it and keeps it alive; one timer (watch) ends it at
// the trusted deadline whatever that goroutine is doing. It carries every
// lease of the shard: a lease has neither goroutine nor timer.
type session struct {
	c        *Client
	sh       *Shard
	id       driver.SessionID
	seq      atomic.Uint64
	deadline atomic.Int64 // clock.Instant; trusted before it. 0: ended
	trust    atomic.Int64 // time.Duration from send to deadline
	renewAt  atomic.Int64 // clock.Instant of the next renewal; MaxInt64 while one is in flight

	ctx    context.Context // ends with the session; its cause is the reason
	cancel context.CancelCauseFunc
	// attempts end with the session: Close must not wait for a slow store.
	attempts, withdrawals *callctx.Maker
	ready                 chan struct{} // closed when open or failed
	wake                  chan struct{} // makes the loop renew now

	// Guarded by sh.mu.
	state      sessionState
	drv        driver.Session
	generation uint64 // counts how often drv was replaced
	openErr    error  // set before ready is closed
	owing      bool   // Close ended it, and it has something to give back
	cause      error  // why it ended
	grants     *grant
	leaving    map[*grant]struct{}            // given back with a mark to leave, not acknowledged
	watches    map[uint64]*watch              // of claims whose holders asked for notices, by number
	watched    map[string]map[*watch]struct{} // of grants whose holders asked for notices, by name
	waiting    map[string]int                 // the client's own claims that wait in the store, by name
	idle       []*grant                       // grants that linger, in no order
	doubtful   bool                           // the last renewal failed
	users      int                            // acquisitions and unlocks that use it
	idleSince  clock.Instant                  // when the last grant or user went
	deadlines  deadlineHeap                   // of grants with a MaxHold
	timer      *time.Timer
	cleanup    cleanup
}

// sessionState is how far a session is between its opening and its end.
type sessionState uint8

const (
	sessionOpening sessionState = iota
	sessionOpen
	// sessionReset: the store answered that it lost its data. Leases are trusted up to
	// the deadline as before; nothing is renewed.
	sessionReset
	// sessionResuming: the session is open again, and not all leases are reclaimed. A
	// keep-alive would confirm leases that the store does not have.
	sessionResuming
	sessionEnded
	// sessionEndedUnreclaimed: the session was opened again and ended before all leases
	// were reclaimed. The store's answers about claims of leases mean nothing.
	sessionEndedUnreclaimed
)

// live reports whether the session's leases are trusted up to its deadline.
func (st sessionState) live() bool { return st > sessionOpening && st < sessionEnded }

// unreclaimed reports whether the store may be without claims of leases.
func (st sessionState) unreclaimed() bool {
	return st == sessionResuming || st == sessionEndedUnreclaimed
}

// reopened returns the state after the session was opened again.
func (st sessionState) reopened() sessionState {
	if st.live() {
		return sessionResuming
	}
	return sessionEndedUnreclaimed
}

// ended returns the state after the end.
func (st sessionState) ended() sessionState {
	if st.unreclaimed() {
		return sessionEndedUnreclaimed
	}
	return sessionEnded
}

// lostData reports whether the session has to be resumed before it is renewed.
func (st sessionState) lostData() bool { return st == sessionReset || st == sessionResuming }

func newSession(sh *Shard) *session {
	s := &session{c: sh.c, sh: sh, id: driver.NewSessionID(), ready: make(chan struct{}), wake: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.renewAt.Store(math.MaxInt64)
	s.attempts = callctx.New(s.ctx, sh.c.opts.CallTimeout)
	s.withdrawals = callctx.New(context.Background(), sh.c.opts.CallTimeout)
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
		news := !s.sh.failing && !errors.Is(err, ErrClosed)
		s.sh.failing = true
		s.sh.mu.Unlock()
		if news {
			s.c.emitSession(s, SessionOpenFailed, 0, err)
		}
		s.cancel(err)
		close(s.ready)
		if opened {
			s.leaveStore()
		}
		return
	}
	s.c.emitSession(s, SessionOpened, 0, nil) // before what happens on it
	close(s.ready)
	s.loop()
	s.leaveStore()
}

// start opens the session in the store.
func (s *session) start() error {
	drv, renewal, sent, err := s.callOpen(s.ctx, nil, s.c.opts.CallTimeout)
	if err != nil {
		return err
	}
	s.sh.mu.Lock()
	defer s.sh.mu.Unlock()
	s.drv = drv
	if err := s.renewedLocked(sent, renewal); err != nil {
		return err
	}
	if s.sh.closed {
		return ErrClosed
	}
	s.state, s.idleSince = sessionOpen, s.c.clock.Sent()
	s.sh.failing = false
	s.timer = time.AfterFunc(s.untilCheckLocked(s.c.clock.Now()), s.watch)
	return nil
}

// callOpen opens the session in the store: again, if before is its last value.
func (s *session) callOpen(ctx context.Context, before driver.Session, timeout time.Duration) (driver.Session, driver.Renewal, clock.Instant, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	sent := s.c.clock.Sent()
	drv, renewal, err := s.c.store.Open(ctx, driver.OpenRequest{Shard: s.sh.id, ID: s.id, Before: before, TTL: s.c.opts.TTL, Contended: s.wanted})
	return drv, renewal, sent, err
}

func (s *session) trusted() time.Duration { return time.Duration(s.trust.Load()) }

// leave ends the use of the session by an acquisition.
func (s *session) leave() {
	s.sh.mu.Lock()
	s.leftLocked()
	s.sh.mu.Unlock()
}

// leftLocked counts a user less. sh.mu must be held.
func (s *session) leftLocked() {
	s.users--
	s.idleSince = s.c.clock.Sent()
}

// retire lets a session go that was not used for a TTL: an idle process
// costs the store nothing.
func (s *session) retire() bool {
	return s.endIf(ErrClosed, func() bool {
		return s.unusedLocked() && s.users == 0 && s.cleanup.idle() && s.c.clock.Sent().Sub(s.idleSince) >= s.trusted()
	})
}

// end ends the session once. When it returns, the session's context has ended, with the
// cause of the first end.
func (s *session) end(cause error) {
	if s.endIf(cause, func() bool { return true }) {
		return
	}
	s.sh.mu.Lock()
	if s.cause != nil {
		cause = s.cause // it has ended, and its context is about to
	}
	s.sh.mu.Unlock()
	s.cancel(cause)
}

// endIf ends a live session if the condition holds, and reports whether it did: it
// notifies every holder first, then makes room for waiters, and only then calls
// hooks and logs, which may be slow.
func (s *session) endIf(cause error, condition func() bool) bool {
	s.sh.mu.Lock()
	if !s.state.live() || !condition() {
		s.sh.mu.Unlock()
		return false
	}
	s.state, s.cause = s.state.ended(), cause
	s.owing = s.sh.closed && !errors.Is(cause, ErrLost) && (s.grants != nil || s.users > 0 || !s.cleanup.idle())
	s.deadline.Store(0)
	if s.sh.session == s {
		s.sh.session = nil
	}
	s.timer.Stop()
	if s.cleanup.timer != nil {
		s.cleanup.timer.Stop()
	}
	grants := s.grants
	s.idle = nil
	s.grants, s.deadlines, s.leaving, s.watches, s.watched, s.cleanup.first, s.cleanup.failed = nil, nil, nil, nil, nil, nil, nil
	s.sh.mu.Unlock()
	s.cancel(cause)
	var notified []*Lease
	for g := grants; g != nil; g = g.next {
		notified = g.notify(cause, notified)
	}
	for g := grants; g != nil; {
		next := g.next
		g.prev, g.next = nil, nil // a lease that is kept must not keep the others
		g.freeQueue()
		g = next
	}
	if errors.Is(cause, ErrLost) {
		s.c.emitSession(s, SessionLost, 0, cause)
	} else {
		s.c.emitSession(s, SessionClosed, 0, nil)
	}
	for _, l := range notified {
		l.emit(LeaseLost, cause)
	}
	return true
}

// endIfGone ends the session if err is the store's answer that it has ended, and
// reports whether it is: the holders must not go on until the next keep-alive finds out.
// After a suspend the session may be past its own deadline, which no timer has noticed; the
// store has then ended it in time and not early.
func (s *session) endIfGone(err error) bool {
	if !errors.Is(err, driver.ErrGone) {
		return false
	}
	why := SessionEnded
	if s.c.clock.Now() >= clock.Instant(s.deadline.Load()) {
		why = Unrenewed
	}
	s.end(s.c.lost(why)) // which changes nothing if it has ended before
	return true
}

// Sleep waits, and reports whether ctx let it.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// leaveStore ends the session in the store, so that no other client waits for a
// TTL. After a loss it comes a margin later: a store that answers again just then
// would give the lock to another while the holder, notified a moment ago, is still
// stopping. That is so even if the store has ended the session: it may be made of
// several stores, and one of them has ended it.
//
// A session that Client.Close ends gives locks back, and Close answers for that:
// the call is repeated, and a failure is reported. Other sessions have nothing to
// give back, or their holders were notified of the loss; the store would find out
// by itself, and one call is enough.
func (s *session) leaveStore() {
	cause := context.Cause(s.ctx)
	if errors.Is(cause, ErrLost) {
		t := time.NewTimer(s.c.opts.Margin)
		defer t.Stop()
		select {
		case <-t.C:
		case <-s.c.done:
		}
	}
	s.sh.mu.Lock()
	drv, owing := s.drv, s.owing
	s.sh.mu.Unlock()
	if err := s.closeInStore(drv, owing); err != nil && owing {
		s.c.notGivenBack(err)
	}
}

// closeInStore ends the session in the store, with several tries if it must be
// certain. A store that was reset ends what it has of the session, which may be
// more than the client knows of, only after the session was opened again.
func (s *session) closeInStore(drv driver.Session, certain bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*s.c.opts.CallTimeout)
	defer cancel()
	for failures := 1; ; failures++ {
		err := s.callClose(ctx, drv)
		if errors.Is(err, driver.ErrReset) {
			var again driver.Session
			again, _, _, err = s.callOpen(ctx, drv, s.c.opts.CallTimeout)
			if err == nil {
				drv = again
				err = s.callClose(ctx, drv)
			}
		}
		switch {
		case err == nil, errors.Is(err, driver.ErrGone):
			return nil
		case !certain, !Transient(err) && !errors.Is(err, driver.ErrReset):
			return err
		}
		if !Sleep(ctx, timing.Backoff(failures, s.c.opts.TTL/100, s.c.opts.TTL/12, rand.Float64())) {
			return err
		}
	}
}

func (s *session) callClose(ctx context.Context, drv driver.Session) error {
	ctx, cancel := context.WithTimeout(ctx, s.c.opts.CallTimeout)
	defer cancel()
	return drv.Close(ctx)
}

// notGivenBack notes what Close returns.
func (c *Client) notGivenBack(err error) {
	err = c.notClosed(fmt.Errorf("not confirmed: %w: %w", ErrUnavailable, err))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeErr = err
}

// suspendTick is how often the deadline is compared with the clock even if
// nothing is due: timers stand still while the machine is suspended.
const suspendTick = 500 * time.Millisecond

// watch runs on the timer: it ends what is due and sets the timer again.
func (s *session) watch() {
	now := s.c.clock.Now()
	if now >= clock.Instant(s.deadline.Load()) {
		s.end(s.c.lost(Unrenewed))
		return
	}
	s.sh.mu.Lock()
	var ended, over []*grant
	for len(s.deadlines) > 0 && s.deadlines[0].nextCheck <= now {
		g := heap.Pop(&s.deadlines).(*grant)
		if g.lingerEnd != 0 {
			g.nextCheck = 0  // an unlock that began before must not let it linger: no check would follow
			g.recallLocked() // one that is in use is given back by its unlock
		} else if g.state == grantHeld {
			// Notified now, withdrawn a margin later, as the store would end it.
			g.state = grantExpired
			ended = append(ended, g)
			g.nextCheck = g.nextCheck.Add(g.margin(s.c.opts.Margin))
			heap.Push(&s.deadlines, g)
		} else {
			over = append(over, g)
		}
	}
	if s.state.live() {
		s.timer.Reset(s.untilCheckLocked(now))
	}
	s.sh.mu.Unlock()
	if now >= clock.Instant(s.renewAt.Load()) {
		s.renewNow() // the loop's timer stood still in a suspend
	}
	loseAll(ended, over, s.c.lost(MaxHoldReached), 0)
}

// untilCheckLocked returns how long it is until watch must run. sh.mu must be held.
func (s *session) untilCheckLocked(now clock.Instant) time.Duration {
	d := min(clock.Instant(s.deadline.Load()).Sub(now), suspendTick)
	if len(s.deadlines) > 0 {
		d = min(d, s.deadlines[0].nextCheck.Sub(now))
	}
	return max(d, 0)
}

// deadlineHeap is a heap of grants by their fixed end, or that of their lingering: with it a million of them
// need one timer.
type deadlineHeap []*grant

func (h deadlineHeap) Len() int           { return len(h) }
func (h deadlineHeap) Less(i, j int) bool { return h[i].nextCheck < h[j].nextCheck }
func (h deadlineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = int32(i), int32(j)
}

// Push implements heap.Interface.
func (h *deadlineHeap) Push(x any) {
	g := x.(*grant)
	g.heapIndex = int32(len(*h))
	*h = append(*h, g)
}

// Pop implements heap.Interface.
func (h *deadlineHeap) Pop() any {
	old := *h
	g := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return g
}
