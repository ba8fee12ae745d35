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

// follow begins to wait for the bell of the claim before w, or goes on with it. It returns nil
// if no bell is before it.
func (ss *session) follow(c *driver.Claim, w *waiting) *job {
	bl := ss.store.bells.of(claimID{ss.sid, c.Seq})
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if bl == nil || w.before == 0 || w.deep {
		w.deep = false // it waits for its bell again after one poll and its pause
		return nil
	}
	if w.wait == nil {
		j := bl.send(job{other: w.before, name: c.Name, bound: bellBound(w.place, ss.ttl)})
		w.wait = &j
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
	ss.mu.Lock()
	w.wait, w.deep = nil, wait.ring.deep
	waited := w.before
	ss.mu.Unlock()
	out, err := driver.Outcome{State: driver.Queued}, error(nil)
	if wait.ring.row != nil {
		out = ss.found(c, w, wait.ring.row)
	} else if !wait.ring.deep { // the caller polls then
		out, err = ss.poll(ctx, c, w)
	}
	if err != nil {
		return out, true, err
	}
	if out.State != driver.Queued || !wait.ring.rung { // not rung: it is held for long, or its own bell is gone
		return out, out.State != driver.Queued, nil
	}
	l, err := ss.store.loadShort(ctx, ss.sid, c.Name)
	if err != nil {
		return driver.Outcome{}, true, err
	}
	ss.behind(w, nextBell(waited, l.BellBefore(ss.sid, c.Seq)))
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
