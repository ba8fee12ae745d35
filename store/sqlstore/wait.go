// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/sqlstore/internal/lockrow"
)

// waker waits with queued claims until there may be news of them. A store has one, chosen once. What it
// brings is a hint; only the row of a lock says who has it.
type waker interface {
	// next waits once, and returns what is known of the claim then. It is called again while that is Queued.
	next(ctx context.Context, ss *session, c *driver.Claim, w *waiting) (driver.Outcome, error)
	// gone frees what the waker keeps for a claim, ended what it keeps for a session.
	gone(c claimID)
	ended(session string)
	close()
}

// newWaker chooses how the claims of a store wait.
func newWaker(s *Store) waker {
	switch {
	case s.listens():
		return listenWaker{&s.listener}
	case !s.handoffLocks.never:
		return handoffWaker{&s.handoffLocks}
	}
	return pollWaker{}
}

// claimID is a claim of a session.
type claimID struct {
	session string
	seq     uint64
}

// waiting is a claim that is queued, or about to be. It is made before the attempt is
// sent, so that a push which overtakes the answer finds it. The session's mu must be held, but for notified.
type waiting struct {
	progress
	handoff
	queued    bool
	listenAt  time.Time     // when it comes near the front of the queue
	listening int64         // since when its session was listened for when it was attempted
	polls     int           // since the lock was seen to change hands
	notified  chan struct{} // closed when granted or err is set
	granted   driver.Token
	err       error
}

// progress is how the queue before a claim moves.
type progress struct {
	since   time.Time     // when it was queued
	first   int           // its place then
	place   int           // when it was read last
	counter int64         // of the lock then
	moved   time.Time     // when that was seen first
	pace    time.Duration // of a handoff, as far as it is known; 0 if it is not
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
	since, _ := ss.store.listener.since(ss)
	if listen {
		since, _ = ss.store.listener.listen(ss)
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	w := ss.waits[seq]
	if w == nil {
		w = &waiting{notified: make(chan struct{}), listening: since, progress: progress{moved: time.Now()}}
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

// Await implements driver.Session.
func (ss *session) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	w := ss.expect(c.Seq, false)
	for {
		if err := ctx.Err(); err != nil {
			return driver.Outcome{}, fmt.Errorf("sqlstore: await: %w", err)
		}
		out, err := ss.store.waker.next(ctx, ss, c, w)
		if err != nil || out.State != driver.Queued { // after an error it may still be queued, and stays known
			return ss.waited(c, w, out, err)
		}
	}
}

// pushedTo returns what a claim was notified of.
func (ss *session) pushedTo(c *driver.Claim, w *waiting) (driver.Outcome, error) {
	if w.err != nil {
		ss.stopWaiting(c.Seq)
		return driver.Outcome{}, w.err
	}
	return driver.Outcome{State: driver.Granted, Token: w.granted}, nil
}

// waited ends the wait of a claim, and notes the pace of the handoffs if it was granted.
func (ss *session) waited(c *driver.Claim, w *waiting, out driver.Outcome, err error) (driver.Outcome, error) {
	if err != nil {
		return driver.Outcome{}, err
	}
	ss.mu.Lock()
	since, first := w.since, w.first
	ss.mu.Unlock()
	ss.stopWaiting(c.Seq)
	if out.State == driver.Granted && !since.IsZero() {
		ss.store.recent.granted(c.Name, first, time.Since(since))
	}
	return out, nil
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
	var list []lockrow.Claim
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

// noteCounter notes what a poll has found, and reports whether the lock changed hands since the
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
