// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
)

// A try that finds a holder which may be idle queues a claim, so that the holder is
// notified, and waits a moment for the answer: to its caller the lock is free. Whether the
// holder is idle is not known to the store. One that is not makes the try wait unsuccessfully, so
// the wait is short.

// recallSlack and recallTrips are what a recall takes at most on a machine under load: the
// notice, the withdrawal and the push are two round trips.
const (
	recallSlack = 50 * time.Millisecond
	recallTrips = 8
)

// recallTime returns how long a try waits for the lock to be given back, or 0 if no holder
// lingers.
func recallTime(ans *answer, now clock.Instant) time.Duration {
	var longest time.Duration
	for _, h := range ans.Holders {
		longest = max(longest, h.Linger)
	}
	return min(longest, recallSlack+recallTrips*now.Sub(ans.sent))
}

func busyOf(name string, ans *answer) Busy {
	return Busy{Name: name, Holders: ans.Holders}
}

// awaitRecall waits for a lock that may be idle. It is in no queue of the client.
func (a *acquisition) awaitRecall(ctx context.Context, s *session, d time.Duration, busy Busy) (*Lease, error) {
	wait, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	p := a.claimOn(s)
	p.claim.Queue = true
	defer func() {
		if !a.admitted { // even when the store panics
			p.withdraw()
		}
	}()
	for polls := 1; ; polls++ {
		ans, err := p.attempt(ctx)
		if err != nil {
			s.endIfGone(err)
			return nil, err
		}
		switch {
		case ans.State == driver.Granted:
			return a.admit(ctx, p, &ans)
		case ans.Grace: // the store lost its data meanwhile
			return nil, a.inGrace(ans.PollAfter)
		case ans.State != driver.Queued, ans.Position > 0, wait.Err() != nil:
			return nil, a.c.opts.Busy(busy) // others wait already, or it is not idle
		}
		// A push is not enough: only an attempt knows how much is left of a MaxHold.
		if _, err := p.await(wait, &ans, polls); err != nil && wait.Err() == nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, a.c.opts.Busy(busy)
		}
	}
}
