// SPDX-License-Identifier: Apache-2.0

package core

import (
	"container/heap"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
	"github.com/fencelock/fencelock/internal/timing"
)

// A claim of unknown outcome must not stay in the store: its session lives on
// and would keep it forever. So every withdrawal is repeated until the store
// acknowledges it or the session has ended, by the session's cleanup, on its
// own context, whatever became of the caller's.

const (
	// maxWithdrawals bounds the cleanup's calls in flight on one session. One at
	// once is not enough: a process with thousands of abandoned claims would
	// block their locks for longer than if it had died.
	maxWithdrawals = 32
	// maxRepeats bounds those of them that failed before, so that claims whose
	// withdrawal the store does not answer never block a first withdrawal.
	maxRepeats = maxWithdrawals / 2
	// maxUnsent is how many withdrawals may be queued and not sent before new claims wait for them. Without
	// a bound, callers whose contexts end within milliseconds put claims into the store's queues faster
	// than the cleanup takes them out of there: the queues grow, every call in them becomes slower, the
	// cleanup falls behind further, and at last the keep-alives do. With it the store has
	// a few claims more than the process has callers.
	maxUnsent = 2 * maxWithdrawals
)

// cleanup has the withdrawals of a session that the store has not acknowledged.
// It has no goroutine while there is nothing to send. Guarded by the shard's
// mutex.
type cleanup struct {
	first   []*removal    // not sent yet
	failed  removalHeap   // sent and failed, or to be sent later, by the time of the next try
	running int           // goroutines, one call in flight each
	repeats int           // calls in flight for removals that failed before
	fewer   chan struct{} // closed when claims need not wait any more; nil if none waits
	timer   *time.Timer   // starts goroutines for failed; nil until needed
}

// removal is one withdrawal until it is acknowledged.
type removal struct {
	driver.Withdrawal
	g        *grant // nil if it was never granted here
	failures int
	due      clock.Instant // of the next try, if it failed
}

// idle reports whether nothing is left to withdraw.
func (q *cleanup) idle() bool { return q.running == 0 && len(q.first) == 0 && len(q.failed) == 0 }

// readyLocked reports whether something can be sent now. sh.mu must be held.
func (q *cleanup) readyLocked(now clock.Instant) bool {
	return len(q.first) > 0 || len(q.failed) > 0 && q.failed[0].due <= now && q.repeats < maxRepeats
}

// nextLocked takes the removal to send now, or returns nil. sh.mu must be held.
func (q *cleanup) nextLocked(now clock.Instant) *removal {
	switch {
	case !q.readyLocked(now):
		return nil
	case len(q.first) > 0:
		r := q.first[0]
		q.first[0] = nil
		q.first = q.first[1:]
		if q.fewer != nil && len(q.first) < maxUnsent {
			close(q.fewer)
			q.fewer = nil
		}
		return r
	}
	q.repeats++
	return heap.Pop(&q.failed).(*removal)
}

// caughtUpLocked returns nil, or what is closed when so few withdrawals are left that a new claim may be sent. sh.mu
// must be held.
func (q *cleanup) caughtUpLocked() <-chan struct{} {
	if len(q.first) < maxUnsent {
		return nil
	}
	if q.fewer == nil {
		q.fewer = make(chan struct{})
	}
	return q.fewer
}

// queueWithdrawalLocked queues a withdrawal. sh.mu must be held.
func (s *session) queueWithdrawalLocked(w driver.Withdrawal) {
	if !s.state.live() {
		return // ends with the session
	}
	s.addRemovalLocked(&removal{Withdrawal: w})
}

// queueWithdrawalLocked queues the withdrawal of a grant, unless it is queued already: a resume
// that fails again and again must not add one each time. sh.mu must be held.
func (g *grant) queueWithdrawalLocked() {
	if g.s.state.live() && !g.withdrawalQueued {
		g.withdrawalQueued = true
		g.s.addRemovalLocked(&removal{Withdrawal: g.withdrawalLocked(), g: g})
	}
}

// queueLaterWithdrawalLocked queues the withdrawal of a grant to be sent after a time. sh.mu must be held.
func (g *grant) queueLaterWithdrawalLocked(after time.Duration) {
	s := g.s
	if !s.state.live() || g.withdrawalQueued {
		return
	}
	g.withdrawalQueued = true
	heap.Push(&s.cleanup.failed, &removal{g: g, failures: 1, due: s.c.clock.Sent().Add(after)})
	s.wakeCleanupLocked()
}

func (s *session) addRemovalLocked(r *removal) {
	s.cleanup.first = append(s.cleanup.first, r)
	s.moreCleanupLocked()
}

// moreCleanupLocked starts a goroutine of the cleanup unless enough of them run. sh.mu
// must be held.
func (s *session) moreCleanupLocked() {
	if s.cleanup.running < maxWithdrawals && s.c.Background(s.runCleanup) {
		s.cleanup.running++
	}
}

// runCleanup withdraws what is queued until nothing can be sent now.
func (s *session) runCleanup() {
	for r := s.takeRemoval(); r != nil; r = s.takeRemoval() {
		_, _, err := s.callWithdraw(context.Background(), r.Withdrawal, nil)
		s.endIfGone(err)
		if errors.Is(err, driver.ErrReset) {
			s.renewNow()
		}
		s.cleanedUp(r, err)
		if err == nil && s.c.watched() {
			s.c.emit(r.event(s))
		}
	}
}

// event is that of a withdrawal that the store acknowledged.
func (r *removal) event(s *session) Event {
	e := Event{Kind: ClaimWithdrawn, Shard: s.sh.id, Session: s.id, Name: r.Name}
	if r.g != nil && r.g.recalled != 0 {
		e.Kind, e.Token, e.Waited = LeaseRecalled, r.g.token, s.c.clock.Sent().Sub(r.g.recalled)
	}
	return e
}

// takeRemoval returns what the calling goroutine sends next, or nil if it must
// end. The first goroutine starts the second, and so on, while there is more.
func (s *session) takeRemoval() *removal {
	s.sh.mu.Lock()
	defer s.sh.mu.Unlock()
	q, now := &s.cleanup, s.c.clock.Sent()
	r := q.nextLocked(now)
	s.wakeCleanupLocked() // for those that are due later
	if r == nil || !s.state.live() {
		q.running--
		return nil
	}
	if r.g != nil {
		r.g.withdrawalQueued, r.Withdrawal = false, r.g.withdrawalLocked() // it may have to leave a tombstone by now
	}
	if q.readyLocked(now) {
		s.moreCleanupLocked()
	}
	return r
}

// cleanedUp takes the store's answer to a removal. Even an error that is definite
// is no reason to give up: the server may be out of memory for a while, and the
// claim would block every caller for as long as the session lives.
func (s *session) cleanedUp(r *removal, err error) {
	s.sh.mu.Lock()
	defer s.sh.mu.Unlock()
	q := &s.cleanup
	if r.failures > 0 {
		q.repeats--
	}
	if err != nil {
		r.failures++
		r.due = s.c.clock.Sent().Add(timing.Backoff(r.failures, s.trusted()/100, s.trusted()/12, rand.Float64()))
		if r.g != nil && r.g.withdrawalQueued {
			return // queued again during the call
		}
		if r.g != nil {
			r.g.withdrawalQueued = true
		}
		heap.Push(&q.failed, r)
		s.wakeCleanupLocked()
	} else if r.g != nil {
		r.g.endedLocked()
	}
}

// wakeCleanupLocked makes the timer start a goroutine when the next failed removal is
// due. sh.mu must be held.
func (s *session) wakeCleanupLocked() {
	q := &s.cleanup
	if len(q.failed) == 0 || !s.state.live() {
		return
	}
	in := q.failed[0].due.Sub(s.c.clock.Sent())
	if in <= 0 && q.repeats >= maxRepeats {
		return // those in flight go on with it when they return
	}
	if q.timer != nil {
		q.timer.Reset(in)
		return
	}
	q.timer = time.AfterFunc(in, func() {
		s.sh.mu.Lock()
		defer s.sh.mu.Unlock()
		if q.readyLocked(s.c.clock.Sent()) {
			s.moreCleanupLocked()
		} else {
			s.wakeCleanupLocked() // the clock may be behind the timer
		}
	})
}

// callWithdraw makes one bounded call. moved reports whether the store had g, if there is one,
// last in an earlier generation of the session than the one that is asked: an absent claim may
// have been lost then, and a reclaim that is under way may put it back.
func (s *session) callWithdraw(ctx context.Context, w driver.Withdrawal, g *grant) (found driver.Removed, moved bool, err error) {
	s.sh.mu.Lock()
	drv, generation, early := s.drv, s.generation, w.KeepFor > 0 && s.state.unreclaimed()
	moved = g != nil && g.generation != generation
	s.sh.mu.Unlock()
	if early {
		return driver.WasAbsent, moved, errNotReclaimed
	}
	call, over := s.withdrawals.Context(ctx)
	defer over()
	found, err = drv.Withdraw(call, w)
	if err == nil && w.KeepFor > 0 && s.resumedSince(generation) {
		err = errNotReclaimed // the mark was left in data that is gone
	}
	return found, moved, err
}

// errNotReclaimed is why a withdrawal that leaves a mark must be made later: the
// store cannot leave a mark for a claim that is not reclaimed yet.
var errNotReclaimed = errors.New("the store was reset and the lock is not reclaimed yet")

func (s *session) resumedSince(generation uint64) bool {
	s.sh.mu.Lock()
	defer s.sh.mu.Unlock()
	return s.generation != generation
}

// removalHeap is a heap of removals by the time of their next try.
type removalHeap []*removal

func (h removalHeap) Len() int           { return len(h) }
func (h removalHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h removalHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *removalHeap) Push(x any) { *h = append(*h, x.(*removal)) }

// Pop implements heap.Interface.
func (h *removalHeap) Pop() any {
	old := *h
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return r
}
