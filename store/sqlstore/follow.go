// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// bell gives a claim a bell, and returns its number, 0 for none.
func (ss *session) bell(ctx context.Context, seq uint64) int64 {
	id := ss.store.bells.take(ctx, claimID{ss.sid, seq})
	select {
	case <-ss.notices.ended: // perhaps before it had one
		ss.store.bells.free(claimID{ss.sid, seq})
		return 0
	default:
		return id
	}
}

// behind notes the bell of the claim before w, as the row has it; 0 for none.
func (ss *session) behind(w *waiting, bell int64) {
	ss.mu.Lock()
	w.before = bell
	ss.mu.Unlock()
}

// rang notes what a claim waits for next that was not granted though the bell it waited for was free,
// by the bell that is before it now.
func (ss *session) rang(w *waiting, waited, now int64) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if w.before = nextBell(waited, now); w.before == 0 {
		w.dead = waited
	}
}

// stillBehind notes the bell of the claim before w when the claim is attempted again: the claim whose
// bell has died may be gone.
func (ss *session) stillBehind(w *waiting, bell int64) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if bell != 0 && bell != w.dead {
		w.before = bell
	}
}

// follow begins to wait for the bell of the claim before w, or goes on with it. It returns nil
// if no bell is before it.
func (ss *session) follow(c *driver.Claim, w *waiting) *job {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if w.before == 0 || w.refused {
		w.refused = false // it waits for its bell again after one poll and its pause
		return nil
	}
	if w.wait == nil {
		bound, read := bellWait(w.place, ss.ttl, w.longer)
		w.wait = ss.store.bells.wait(claimID{ss.sid, c.Seq}, job{other: w.before, name: c.Name, bound: bound, read: read})
	}
	return w.wait
}

// awaitBell waits for the bell, for a little longer than the server may, and finds out what the
// row says. It reports whether the wait of the claim is over.
func (ss *session) awaitBell(ctx context.Context, c *driver.Claim, w *waiting, wait *job) (driver.Outcome, bool, error) {
	select {
	case <-w.notified:
		out, err := ss.pushedTo(c, w)
		return out, true, err
	case <-ctx.Done():
		return driver.Outcome{}, true, fmt.Errorf("sqlstore: await: %w", ctx.Err())
	case <-wait.done:
	case <-time.After(wait.bound + wait.bound/4): // its connection does not answer, and will be closed
		out, err := ss.poll(ctx, c, w)
		return out, out.State != driver.Queued, err
	}
	r := wait.ring
	ss.mu.Lock()
	w.wait, w.refused = nil, r.state == ringRefused
	w.longer = r.state == ringBound && wait.read
	ss.mu.Unlock()
	out, err := driver.Outcome{State: driver.Queued}, error(nil)
	switch {
	case r.row != nil:
		out = ss.found(c, w, r.row)
	case r.state == ringRung, r.state == ringLost, wait.read && r.state == ringBound: // the last: the row is gone
		out, err = ss.poll(ctx, c, w)
	}
	if err != nil || out.State != driver.Queued {
		return out, true, err
	}
	if r.state != ringRung {
		return out, false, nil
	}
	l, err := ss.store.loadShort(ctx, ss.sid, c.Name)
	if err != nil {
		return driver.Outcome{}, true, err
	}
	ss.rang(w, wait.other, l.BellBefore(ss.sid, c.Seq)) // not w.before, which an attempt may have changed since
	return out, false, nil
}

// nextBell returns the bell that a claim waits for that was not granted though its bell was
// free, by the bell that is before it now: 0 if it polls from now on.
func nextBell(waited, now int64) int64 {
	if now == waited {
		return 0 // no process has that bell any more
	}
	return now // the claim before it is gone
}
