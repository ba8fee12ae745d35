// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// handoffWaker lets a plain claim wait for the handoff lock of a claim before it, on MySQL and MariaDB. Where there is
// none, it polls.
type handoffWaker struct{ locks *handoffLocks }

func (h handoffWaker) gone(c claimID)       { h.locks.free(c) }
func (h handoffWaker) ended(session string) { h.locks.freeAll(session) }
func (h handoffWaker) close()               { h.locks.close() }

// next implements waker.
func (h handoffWaker) next(ctx context.Context, ss *session, c *driver.Claim, w *waiting) (driver.Outcome, error) {
	wait := ss.beginWait(c, w)
	if wait == nil {
		return pollWaker{}.next(ctx, ss, c, w)
	}
	out, err := ss.endWait(ctx, c, w, wait)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if !w.refused {
		w.polls = 0 // the polls after it begin with the shortest pause
	}
	return out, err
}

// handoff is how a plain claim waits for the handoff lock of a claim before it. No claim before it may
// be passed, so that may be any of them; the nearest is best. The session's mu must be held.
type handoff struct {
	plain   bool    // other claims poll: a claim that re-enters may pass those before it
	before  int64   // the handoff lock that it waits for next; 0 for none
	skipped int     // how many claims directly before it that handoff lock is not of: a chain of waits may be too long
	dead    []int64 // handoff locks that were free though their claims were still before it
	wait    *job    // for a handoff lock, of a claim that was before it when the wait began
	refused bool    // the server ended the last wait for it
	longer  bool    // the next wait for it may be longer
	reuse   bool    // the next attempt need not read the row
	last    driver.Outcome
}

// reuseFrom is from which place on a claim reads the row at each second attempt.
const reuseFrom = 8

// noteAttempt notes where an attempt has found a claim that was queued before.
func (ss *session) noteAttempt(w *waiting, out driver.Outcome, counter int64) {
	moved := ss.noteCounter(w, counter, false)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	w.place = out.Position
	w.reuse, w.last = !moved && w.place >= reuseFrom, out
}

// lastAnswer reports whether an attempt of a claim can be answered as the last one: the claim is far back, the lock
// did not change hands between the last two reads, and the claim waits for a handoff lock. If the
// process of the claim before it ends, it is woken. Those before it read the row
// at each attempt, so if all of them hang, the grant of another is a TTL late.
func (ss *session) lastAnswer(w *waiting) (driver.Outcome, bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	reuse := w.reuse && w.wait != nil && !w.wait.over()
	w.reuse = false
	return w.last, reuse
}

// handoffLock gives a claim a handoff lock, and returns its number, 0 for none.
func (ss *session) handoffLock(ctx context.Context, seq uint64) int64 {
	id := ss.store.handoffLocks.take(ctx, claimID{ss.sid, seq})
	select {
	case <-ss.notices.ended: // perhaps before it had one
		ss.store.waker.gone(claimID{ss.sid, seq})
		return 0
	default:
		return id
	}
}

// noteBefore notes the handoff lock that w waits for next, by those before it as the row has them.
func (ss *session) noteBefore(w *waiting, before iter.Seq[int64]) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if w.plain {
		w.before = nextHandoffLock(before, w.dead, w.skipped)
	}
}

// noteEnd notes what a claim waits for next whose wait for a handoff lock ended: because it was free, though the
// claim was not granted, or because the chain of waits was too long.
func (ss *session) noteEnd(w *waiting, waited int64, state waitState, before iter.Seq[int64]) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	handoffLocks := slices.Collect(before)
	if state == waitChain {
		w.skipped, w.refused = skipMore(w.skipped, len(handoffLocks))
	} else {
		w.skipped = 0
		if slices.Contains(handoffLocks, waited) { // no process has that handoff lock any more
			w.dead = append(w.dead, waited)
		}
	}
	w.before = nextHandoffLock(slices.Values(handoffLocks), w.dead, w.skipped)
}

// nextHandoffLock returns the handoff lock that a claim waits for, of those before it, the nearest first; 0 if it polls.
// It waits neither for those of the claims that it skips nor for those that no process has.
func nextHandoffLock(before iter.Seq[int64], dead []int64, skip int) int64 {
	for id := range before {
		if skip--; skip < 0 && id != 0 && !slices.Contains(dead, id) {
			return id
		}
	}
	return 0
}

// skipMore returns how many of the claims before it a claim skips after a chain of waits was too long:
// half of those it did not skip. When all are skipped it polls once, and begins again.
func skipMore(skipped, before int) (skip int, poll bool) {
	if left := before - skipped; left > 1 {
		return skipped + left/2, false
	}
	return 0, true
}

// beginWait begins to wait for the handoff lock of a claim before w, or goes on with it. It returns nil
// if no handoff lock is before it.
func (ss *session) beginWait(c *driver.Claim, w *waiting) *job {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if w.before == 0 || w.refused {
		w.refused = false // it waits for its handoff lock again after one poll and its pause
		return nil
	}
	if w.wait == nil {
		bound, read := handoffWait(w.place, ss.ttl, w.longer)
		w.wait = ss.store.handoffLocks.wait(claimID{ss.sid, c.Seq}, job{other: w.before, name: c.Name, bound: bound, read: read})
	}
	return w.wait
}

// endWait waits for the handoff lock, for a little longer than the server may, and finds out what the
// row says.
func (ss *session) endWait(ctx context.Context, c *driver.Claim, w *waiting, wait *job) (driver.Outcome, error) {
	select {
	case <-w.notified:
		return ss.pushedTo(c, w)
	case <-ctx.Done():
		return driver.Outcome{}, fmt.Errorf("sqlstore: await: %w", ctx.Err())
	case <-wait.done:
	case <-time.After(wait.bound + wait.bound/4): // its connection does not answer, and will be closed
		return ss.poll(ctx, c, w)
	}
	r := wait.end
	ss.mu.Lock()
	w.wait, w.refused, w.longer = nil, r.state == waitRefused, r.state == waitBound
	ss.mu.Unlock()
	out, err := driver.Outcome{State: driver.Queued}, error(nil)
	switch {
	case r.row != nil:
		out = ss.found(c, w, r.row)
	case r.state == waitFreed, r.state == waitLost, wait.read && r.state == waitBound: // the last: the row is gone
		out, err = ss.poll(ctx, c, w)
	}
	if err != nil || out.State != driver.Queued || r.state != waitFreed && r.state != waitChain {
		return out, err
	}
	l, err := ss.store.loadShort(ctx, ss.sid, c.Name)
	if err != nil {
		return driver.Outcome{}, err
	}
	ss.noteEnd(w, wait.other, r.state, l.HandoffLocksBefore(ss.sid, c.Seq)) // not w.before, which an attempt may have changed since
	return out, nil
}
