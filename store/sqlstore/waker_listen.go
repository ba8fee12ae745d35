// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// listenWaker lets claims near the front of a queue wait for a message of PostgreSQL. If
// listening began after the attempt, a message may have been missed, and the claim polls once; while no
// connection listens it polls again and again.
type listenWaker struct{ *listener }

func (listenWaker) gone(claimID) {}
func (listenWaker) ended(string) {}

// next implements waker.
func (l listenWaker) next(ctx context.Context, ss *session, c *driver.Claim, w *waiting) (driver.Outcome, error) {
	slept := l.sleepUntilNear(ctx, ss, w)
	select {
	case <-w.notified:
		return ss.pushedTo(c, w)
	default:
	}
	since, changed := l.listen(ss)
	if soon := slept && since == 0 && l.proven(); !soon && ss.mayHaveMissed(w, since) { // if soon, what was missed is polled then
		if out, err := ss.read(ctx, c, w, since); err != nil || out.State != driver.Queued {
			return out, err
		}
	}
	var again <-chan time.Time // without a Stop: an unreferenced timer is collected
	if since == 0 {
		again = time.After(ss.pollPause(w))
	}
	return ss.sleep(ctx, c, w, again, changed)
}

// mayHaveMissed reports whether a message may have been missed by a claim whose session is listened for since then.
func (ss *session) mayHaveMissed(w *waiting, since int64) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return since == 0 || since != w.listening || !w.queued
}

// sleepUntilNear lets a claim that is far from the front of the queue wait until it is near, and reports
// whether it did. Until then the store does not listen for its session, unless another
// claim waits or is watched.
func (l listenWaker) sleepUntilNear(ctx context.Context, ss *session, w *waiting) bool {
	ss.mu.Lock()
	d, all := time.Until(w.listenAt), len(ss.notices.watched) == 0
	for _, other := range ss.waits {
		all = all && time.Until(other.listenAt) > 0
	}
	ss.mu.Unlock()
	if d <= 0 {
		return false
	}
	if all {
		l.pause(ss)
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
