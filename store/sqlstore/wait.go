// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/sqlstore/internal/book"
)

// waiting is a claim that is queued, or about to be. It is made before the attempt is
// sent, so that a push which overtakes the answer finds it.
type waiting struct {
	queued   bool
	since    time.Time     // when it was queued
	first    int           // its place then
	place    int           // when it was read last
	counter  int64         // of the lock then
	moved    time.Time     // when that was seen first
	pace     time.Duration // of a handoff, as far as it is known; 0 if it is not
	listenAt time.Time     // when it comes near the front of the queue
	ears     int64         // since when its session was listened for when it was attempted
	polls    int           // of the Await before, since the lock was seen to change hands
	following
	notified chan struct{} // closed when granted or err is set
	granted  driver.Token
	err      error
}

func (w *waiting) end(err error) {
	select {
	case <-w.notified:
	default:
		w.err = err
		close(w.notified)
	}
}

// expect returns the record of a claim that may be queued. With listen it begins to listen, so
// that no push is missed; otherwise it is too far from the front of the queue.
func (ss *session) expect(seq uint64, listen bool) *waiting {
	ears, _ := ss.store.listener.listeningSince(ss)
	if listen {
		ears, _ = ss.store.listener.ears(ss)
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	w := ss.waits[seq]
	if w == nil {
		w = &waiting{notified: make(chan struct{}), ears: ears, moved: time.Now()}
		ss.waits[seq] = w
	}
	return w
}

// seenQueued reports whether a claim was seen in the queue: then the fast path cannot grant it.
func (w *waiting) seenQueued(ss *session) bool {
	if w == nil {
		return false
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return w.queued
}

// queued notes where a claim stands in the queue, and the pace of handoffs if it is known.
func (ss *session) queued(w *waiting, place int, counter int64, pace time.Duration) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	now := time.Now()
	w.queued, w.place, w.counter, w.moved, w.pace = true, place, counter, now, pace
	w.since, w.first, w.listenAt = now, place, now.Add(listenAfter(place, pace))
}

// waitsNow reports whether a claim of the session waits.
func (ss *session) waitsNow() bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return len(ss.waits) > 0
}

// stopWaiting notes that a claim does not wait any more.
func (ss *session) stopWaiting(seq uint64) {
	ss.mu.Lock()
	delete(ss.waits, seq)
	ss.mu.Unlock()
}

// pushed takes a notification, which the server sent when the grant was committed. It is
// believed without reading the row, which would cost each handoff a round trip. To forge
// one a client must know the id of the session, so it can read the tables (docs/sql.md).
func (ss *session) pushed(seq uint64, counter int64) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if w := ss.waits[seq]; w != nil && w.err == nil && w.granted == 0 {
		w.granted = driver.Token(counter * driver.TokenStep)
		close(w.notified)
	}
}

// Await implements driver.Session. On PostgreSQL, near the front of the queue, it waits for the
// push, while the store listens; if listening began after the attempt, a push may have been
// missed, and it polls once. On MySQL it waits for the handoff lock of the claim before it. Where there
// is neither it polls, by a read of one row.
func (ss *session) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return driver.Outcome{}, fmt.Errorf("sqlstore: await: %w", err)
	}
	w := ss.expect(c.Seq, false)
	polls := w.pollsBefore(ss)
	defer func() { w.polledSo(ss, polls) }()
	for ; ; polls++ {
		if wait := ss.follow(c, w); wait != nil {
			out, over, err := ss.awaitHandoff(ctx, c, w, wait)
			if over && err == nil {
				out = ss.waited(c, w, out)
			}
			if over || err != nil {
				return out, err
			}
			if !w.wasRefused(ss) {
				polls = -1 // the polls after a handoff lock begin with the shortest pause
			}
			continue
		}
		rested := ss.rest(ctx, w)
		select {
		case <-w.notified:
			return ss.pushedTo(c, w)
		case <-ctx.Done():
			return driver.Outcome{}, fmt.Errorf("sqlstore: await: %w", ctx.Err())
		default:
		}
		ears, changed := ss.store.listener.ears(ss)
		listening := rested && ears == 0 && ss.store.listener.proven() // and what was missed is polled then
		if !listening && w.mustPoll(ss, ears) {
			found, err := ss.poll(ctx, c, w)
			if err != nil { // it may still be queued, and stays known
				return found, err
			}
			if found.State != driver.Queued {
				return ss.waited(c, w, found), nil
			}
			w.polled(ss, ears)
			if found.Position == 0 { // it moves: poll often
				polls = 0
			}
		}
		var again <-chan time.Time // without a Stop: an unreferenced timer is collected
		if ears == 0 {
			again = time.After(w.pollPause(ss, polls))
		}
		select {
		case <-w.notified:
			return ss.pushedTo(c, w)
		case <-again:
		case <-changed:
		case <-ctx.Done():
			return driver.Outcome{}, fmt.Errorf("sqlstore: await: %w", ctx.Err())
		}
	}
}

// pollsBefore and polledSo keep how often a claim has polled when the core begins its wait again, once in
// a TTL: it does not poll more often for it.
func (w *waiting) pollsBefore(ss *session) int {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return w.polls
}

func (w *waiting) polledSo(ss *session, polls int) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	w.polls = max(polls, 0)
}

// pushedTo ends the wait of a claim that was notified.
func (ss *session) pushedTo(c *driver.Claim, w *waiting) (driver.Outcome, error) {
	if w.err != nil {
		ss.stopWaiting(c.Seq)
		return driver.Outcome{}, w.err
	}
	return ss.waited(c, w, driver.Outcome{State: driver.Granted, Token: w.granted}), nil
}

// waited ends the wait of a claim, and notes the pace of the handoffs if it was granted.
func (ss *session) waited(c *driver.Claim, w *waiting, out driver.Outcome) driver.Outcome {
	ss.mu.Lock()
	since, first := w.since, w.first
	ss.mu.Unlock()
	ss.stopWaiting(c.Seq)
	if out.State == driver.Granted && !since.IsZero() {
		ss.store.recent.granted(c.Name, first, time.Since(since))
	}
	return out
}

// rest lets a claim that is far from the front of the queue wait until it is near, and reports
// whether it did. Until then the store does not listen for its session, unless another
// claim waits or is watched.
func (ss *session) rest(ctx context.Context, w *waiting) bool {
	ss.mu.Lock()
	d, all := time.Until(w.listenAt), len(ss.notices.watched) == 0
	for _, other := range ss.waits {
		all = all && time.Until(other.listenAt) > 0
	}
	ss.mu.Unlock()
	if d <= 0 || !ss.store.listens() {
		return false
	}
	if all {
		ss.store.listener.rest(ss)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.notified:
	case <-timer.C:
	case <-ctx.Done():
	}
	return true
}

// wasRefused reports whether the server ended the last wait for a handoff lock.
func (w *waiting) wasRefused(ss *session) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return w.refused
}

// mustPoll reports whether a push may have been missed.
func (w *waiting) mustPoll(ss *session, ears int64) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ears == 0 || ears != w.ears || !w.queued
}

// polled notes that a poll found the claim not granted. What is granted later is pushed.
func (w *waiting) polled(ss *session, ears int64) {
	ss.mu.Lock()
	w.ears, w.queued = ears, true
	ss.mu.Unlock()
}

// pollPause is how long a claim waits before it polls again.
func (w *waiting) pollPause(ss *session, polls int) time.Duration {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return pollPause(polls, w.place, w.pace, time.Since(w.moved), rand.Float64())
}

// poll reads whether a claim is granted. If it is not, it is taken to be queued still; a
// position of 0 then means that the lock changed hands since the last poll.
func (ss *session) poll(ctx context.Context, c *driver.Claim, w *waiting) (driver.Outcome, error) {
	if err := ss.store.prepare(ctx); err != nil {
		return driver.Outcome{}, err
	}
	var p polled
	err := ss.store.row(ctx, "poll", []any{ss.store.name(c.Name)}, []any{&p.counter, &p.holder, &p.seq, &p.grants, &p.first})
	if errors.Is(err, sql.ErrNoRows) {
		return driver.Outcome{State: driver.Absent}, nil
	}
	if err != nil {
		return driver.Outcome{}, err
	}
	return ss.found(c, w, &p), nil
}

// polled is what a claim that waits reads of the lock's row.
type polled struct {
	counter               int64
	holder, grants, first sql.NullString
	seq                   sql.NullInt64
}

// found returns what a poll says of a claim, and notes it.
func (ss *session) found(c *driver.Claim, w *waiting, p *polled) driver.Outcome {
	if p.holder.String == ss.sid && uint64(p.seq.Int64) == c.Seq {
		return driver.Outcome{State: driver.Granted, Token: driver.Token(p.counter * driver.TokenStep)}
	}
	var list []book.Claim
	if p.grants.Valid && json.Unmarshal([]byte(p.grants.String), &list) == nil {
		for _, g := range list {
			if g.Session == ss.sid && g.Seq == c.Seq {
				return driver.Outcome{State: driver.Granted, Token: g.Token()}
			}
		}
	}
	if ss.noteCounter(w, p.counter, p.first.String == ss.sid) {
		return driver.Outcome{State: driver.Queued}
	}
	return driver.Outcome{State: driver.Queued, Position: 1}
}

// standing notes what a poll has found, and reports whether the lock changed hands since the
// last one.
func (ss *session) noteCounter(w *waiting, counter int64, first bool) (moved bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if w.counter != 0 && counter > w.counter { // so many were granted since
		n := min(counter-w.counter, 1000)
		w.place = max(0, w.place-int(n))
		w.pace = paceOf(time.Since(w.moved), int(n))
		w.moved, moved = time.Now(), true
	}
	if first {
		w.place = 0
	}
	w.counter = counter
	return moved
}
