// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/sqlstore/internal/book"
)

// waiting is a claim that is queued, or about to be. It is made before the attempt is
// sent, so that a push which overtakes the answer finds it.
type waiting struct {
	queued   bool
	place    int           // when it was read last
	counter  int64         // of the lock then
	moved    time.Time     // when that was seen first
	pace     time.Duration // of a handoff, as far as it was seen; 0 if none was
	ears     int64         // how often listening had begun when it was attempted
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

// expect returns the record of a claim that may be queued.
func (ss *session) expect(seq uint64) *waiting {
	ears, _ := ss.store.hub.ears(ss)
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

func (ss *session) queued(w *waiting, place int, counter int64) {
	ss.mu.Lock()
	w.queued, w.place, w.counter, w.moved = true, place, counter, time.Now()
	ss.mu.Unlock()
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

// Await implements driver.Session. While the store listens, it waits for the push; if
// listening began after the attempt, a push may have been missed, and it polls once.
// Otherwise it polls, by a read of one row.
func (ss *session) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return driver.Outcome{}, fmt.Errorf("sqlstore: await: %w", err)
	}
	w := ss.expect(c.Seq)
	for polls := 0; ; polls++ {
		ears, changed := ss.store.hub.ears(ss)
		if w.mustPoll(ss, ears) {
			found, err := ss.poll(ctx, c, w)
			if err != nil { // it may still be queued, and stays known
				return found, err
			}
			if found.State != driver.Queued {
				ss.stopWaiting(c.Seq)
				return found, nil
			}
			w.polled(ss, ears)
			if found.Position == 0 { // it moves: poll often
				polls = 0
			}
		}
		var again <-chan time.Time // without a Stop: an unreferenced timer is collected
		if ears == 0 {
			place, pace := w.standing(ss)
			again = time.After(pollPause(polls, place, pace, rand.Float64()))
		}
		select {
		case <-w.notified:
			ss.stopWaiting(c.Seq)
			if w.err != nil {
				return driver.Outcome{}, w.err
			}
			return driver.Outcome{State: driver.Granted, Token: w.granted}, nil
		case <-again:
		case <-changed:
		case <-ctx.Done():
			return driver.Outcome{}, fmt.Errorf("sqlstore: await: %w", ctx.Err())
		}
	}
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

func (w *waiting) standing(ss *session) (place int, pace time.Duration) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return w.place, w.pace
}

const (
	// shortestPause is what the first in the queue waits between two polls, at first.
	shortestPause = 500 * time.Microsecond
	// longestPause bounds the pauses, and so how late a handoff is noticed.
	longestPause = 50 * time.Millisecond
)

// pollPause is how long a claim waits before it polls again. Those in front add a tenth
// each time, so a handoff is noticed, on average, a twentieth later than it could be;
// those further back begin later and add half. Once handoffs were seen, a claim waits for
// most of the time that those before it need at their pace. jitter is in [0, 1).
func pollPause(polls, place int, pace time.Duration, jitter float64) time.Duration {
	d, grow := float64(shortestPause)*float64(1+2*min(place, 20)), 1.1
	if place > 1 {
		grow = 1.5
	}
	d *= math.Pow(grow, float64(min(polls, 100)))
	if pace > 0 {
		d = max(d, (float64(place)*0.7+0.2)*float64(pace))
	}
	return time.Duration(min(d, float64(longestPause)) * (0.75 + jitter/2))
}

// poll reads whether a claim is granted. If it is not, it is taken to be queued still; a
// place of 0 then means that the lock changed hands since the last poll.
func (ss *session) poll(ctx context.Context, c *driver.Claim, w *waiting) (driver.Outcome, error) {
	if err := ss.store.prepare(ctx); err != nil {
		return driver.Outcome{}, err
	}
	var counter int64
	var holder, grants sql.NullString
	var seq sql.NullInt64
	err := ss.store.row(ctx, "poll", []any{ss.store.name(c.Name)}, []any{&counter, &holder, &seq, &grants})
	if errors.Is(err, sql.ErrNoRows) {
		return driver.Outcome{State: driver.Absent}, nil
	}
	if err != nil {
		return driver.Outcome{}, err
	}
	if holder.String == ss.sid && uint64(seq.Int64) == c.Seq {
		return driver.Outcome{State: driver.Granted, Token: driver.Token(counter * driver.TokenStep)}, nil
	}
	var list []book.Claim
	if grants.Valid && json.Unmarshal([]byte(grants.String), &list) == nil {
		for _, g := range list {
			if g.Session == ss.sid && g.Seq == c.Seq {
				return driver.Outcome{State: driver.Granted, Token: g.Token()}, nil
			}
		}
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	out := driver.Outcome{State: driver.Queued, Position: 1}
	if w.counter != 0 && counter > w.counter { // so many were granted since
		n := min(counter-w.counter, 1000)
		w.place = max(0, w.place-int(n))
		w.pace, w.moved = time.Since(w.moved)/time.Duration(n), time.Now()
		out.Position = 0
	}
	w.counter = counter
	return out, nil
}
