// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// The core attempts a claim that waits again once in a TTL: its holder may have died, or a notification been lost. To
// read the row for that would cost each claim a statement. The session is kept alive anyway, three times in a TTL, and that
// statement also tells how long the holder lives, if the lock did not change hands:
//
//	keep-alive: the holder lives for 12 s more ──▶ attempt: still queued, without a statement
//	keep-alive: the lock changed hands         ──▶ the claim polls, and the next attempt reads the row
//	keep-alive: the holder was not kept alive  ──▶ the attempt after its end reads the row, and takes the lock from it

// lastRead is where a claim was when the row was read last, behind a plain holder that lived.
type lastRead struct {
	out     driver.Outcome
	counter int64     // of the lock; 0 if nothing is known
	due     time.Time // when an attempt is to be made again
	until   time.Time // how long the holder lives at least, by a keep-alive since then; zero if there was none
}

// noteRead notes what an attempt has read.
func (ss *session) noteRead(w *waiting, out driver.Outcome, counter int64, now time.Time) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	w.place = out.Position
	w.read = lastRead{}
	if !out.Grace {
		w.read = lastRead{out: out, counter: counter, due: now.Add(min(out.PollAfter, ss.ttl))}
	}
}

// readStill returns the outcome of an attempt that is repeated in time, if keep-alives have shown that a read would find the
// same. The first in the queue reads: it is to learn exactly when its holder ends.
func (ss *session) readStill(w *waiting, now time.Time) (driver.Outcome, bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	r := &w.read
	left := r.until.Sub(now)
	if r.counter == 0 || r.out.Position == 0 || left <= 0 || now.Before(r.due) || w.granted != 0 || w.err != nil {
		return driver.Outcome{}, false
	}
	out := r.out
	out.Holders = slices.Clone(out.Holders)
	for i := range out.Holders {
		out.Holders[i].EndsIn = left
	}
	out.PollAfter = driver.PollAfter(left, out.Position)
	r.due = now.Add(min(out.PollAfter, ss.ttl))
	return out, true
}

// reread is a claim whose lock the next keep-alive reads.
type reread struct {
	w       *waiting
	seq     uint64
	name    string
	counter int64
}

// nextReread returns the claim that waits and whose holder may end first, as far as is known; nil for none.
func (ss *session) nextReread() (r *reread) {
	if !ss.store.rereads.Load() {
		return nil
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for seq, w := range ss.waits {
		if w.read.counter != 0 && (r == nil || w.read.until.Before(r.w.read.until)) {
			r = &reread{w, seq, ss.claims[seq], w.read.counter}
		}
	}
	return r
}

// noteReread notes what a keep-alive that was sent then has read. If the lock changed hands, a claim that has waited since the
// keep-alive before polls: in a queue that moves nothing was missed, most likely.
func (ss *session) noteReread(r *reread, left time.Duration, sent time.Time) {
	if r == nil {
		return
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	w := r.w
	switch {
	case w.read.counter != r.counter: // it was read since
	case left > 0:
		w.read.until = sent.Add(left)
	default:
		w.read = lastRead{}
		if sent.Sub(w.since) > ss.ttl/3 {
			select {
			case w.look <- struct{}{}:
			default:
			}
		}
	}
}
