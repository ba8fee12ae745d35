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
	"github.com/fencelock/fencelock/sqlstore/internal/book"
)

// waiting is a claim that is in line, or about to be. It is made before the attempt is
// sent, so that a push which overtakes the answer finds it.
type waiting struct {
	queued  bool
	place   int           // when it was looked at last
	counter int64         // of the lock then
	ears    int64         // how often listening had begun when it was attempted
	told    chan struct{} // closed when granted or err is set
	granted driver.Token
	err     error
}

func (w *waiting) end(err error) {
	select {
	case <-w.told:
	default:
		w.err = err
		close(w.told)
	}
}

// expect returns the record of a claim that may come into line.
func (ss *session) expect(seq uint64) *waiting {
	ears, _ := ss.store.hub.ears(ss)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	w := ss.waits[seq]
	if w == nil {
		w = &waiting{told: make(chan struct{}), ears: ears}
		ss.waits[seq] = w
	}
	return w
}

// inLine says whether a claim was seen in line: then it cannot be granted the short way.
func (w *waiting) inLine(ss *session) bool {
	if w == nil {
		return false
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return w.queued
}

func (ss *session) queued(w *waiting, place int, counter int64) {
	ss.mu.Lock()
	w.queued, w.place, w.counter = true, place, counter
	ss.mu.Unlock()
}

// settled forgets that a claim waits.
func (ss *session) settled(seq uint64) {
	ss.mu.Lock()
	delete(ss.waits, seq)
	ss.mu.Unlock()
}

// pushed takes a notification. It is a hint from the server that wrote the grant, which
// was committed before it was sent.
func (ss *session) pushed(seq uint64, counter int64) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if w := ss.waits[seq]; w != nil && w.err == nil && w.granted == 0 {
		w.granted = driver.Token(counter * driver.TokenStep)
		close(w.told)
	}
}

// Await implements driver.Session. While the store listens, it waits for the push; if
// listening began after the attempt, a push may have been missed, and it looks once.
// Otherwise it looks again and again, by a read of one row.
func (ss *session) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return driver.Outcome{}, fmt.Errorf("sqlstore: await: %w", err)
	}
	w := ss.expect(c.Seq)
	for looks := 0; ; looks++ {
		ears, changed := ss.store.hub.ears(ss)
		if w.mustLook(ss, ears) {
			found, err := ss.look(ctx, c, w)
			if err != nil || found.State != driver.Queued {
				ss.settled(c.Seq)
				return found, err
			}
			if found.Place == 0 { // it moves: look often
				looks = 0
			}
		}
		var again <-chan time.Time
		if ears == 0 {
			timer := time.NewTimer(lookPause(looks, w.standing(ss), rand.Float64()))
			defer timer.Stop()
			again = timer.C
		}
		select {
		case <-w.told:
			ss.settled(c.Seq)
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

// mustLook says whether a push may have been missed, and notes that it will be looked.
func (w *waiting) mustLook(ss *session, ears int64) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ears != 0 && ears == w.ears && w.queued {
		return false
	}
	w.ears, w.queued = ears, true
	return true
}

func (w *waiting) standing(ss *session) int {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return w.place
}

const (
	// shortestPause is what the first in line waits between two looks, at first.
	shortestPause = 500 * time.Microsecond
	// longestPause bounds the pauses, and so how late a hand-over is noticed.
	longestPause = 50 * time.Millisecond
)

// lookPause is how long a claim waits before it looks again. Those in front add a tenth
// each time, so a hand-over is noticed, on average, a twentieth later than it could be;
// those further back, whose turn comes later, begin later and add half. jitter is in
// [0, 1).
func lookPause(looks, place int, jitter float64) time.Duration {
	d, grow := float64(shortestPause)*float64(1+2*min(place, 20)), 1.1
	if place > 1 {
		grow = 1.5
	}
	d = min(d*math.Pow(grow, float64(min(looks, 100))), float64(longestPause))
	return time.Duration(d * (0.75 + jitter/2))
}

// look reads whether a claim is granted. If it is not, it is taken to be in line still;
// a place of 0 then says that the lock changed hands since the last look.
func (ss *session) look(ctx context.Context, c *driver.Claim, w *waiting) (driver.Outcome, error) {
	if err := ss.store.prepare(ctx); err != nil {
		return driver.Outcome{}, err
	}
	var counter int64
	var holder, grants sql.NullString
	var seq sql.NullInt64
	err := ss.store.row(ctx, "look", []any{ss.store.name(c.Name)}, []any{&counter, &holder, &seq, &grants})
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
	out := driver.Outcome{State: driver.Queued, Place: 1}
	if w.counter != 0 && counter > w.counter { // so many have had their turn since
		w.place = max(0, w.place-int(min(counter-w.counter, 1000)))
		out.Place = 0
	}
	w.counter = counter
	return out, nil
}
