// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// pollWaker lets claims read the row again and again.
type pollWaker struct{}

func (pollWaker) gone(claimID) {}
func (pollWaker) ended(string) {}
func (pollWaker) close()       {}

// next implements waker.
func (pollWaker) next(ctx context.Context, ss *session, c *driver.Claim, w *waiting) (driver.Outcome, error) {
	if out, err := ss.read(ctx, c, w, 0); err != nil || out.State != driver.Queued {
		return out, err
	}
	return ss.sleep(ctx, c, w, time.After(ss.pollPause(w)), nil)
}

// read polls for a claim whose session is listened for since then; 0 if it is not. What is granted later is pushed.
func (ss *session) read(ctx context.Context, c *driver.Claim, w *waiting, listening int64) (driver.Outcome, error) {
	found, err := ss.poll(ctx, c, w)
	if err != nil || found.State != driver.Queued {
		return found, err
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	w.listening, w.queued = listening, true
	if found.Position == 0 { // it moves: poll often
		w.polls = 0
	}
	return found, nil
}

// sleep waits until a claim is notified, it is time to poll, or what is listened for has changed.
func (ss *session) sleep(ctx context.Context, c *driver.Claim, w *waiting, again <-chan time.Time, changed <-chan struct{}) (driver.Outcome, error) {
	select {
	case <-w.notified:
		return ss.pushedTo(c, w)
	case <-again:
	case <-changed:
	case <-ctx.Done():
		return driver.Outcome{}, fmt.Errorf("sqlstore: await: %w", ctx.Err())
	}
	return driver.Outcome{State: driver.Queued}, nil
}

// pollPause is how long a claim waits before it polls again.
func (ss *session) pollPause(w *waiting) time.Duration {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	w.polls++
	return pollPause(w.polls-1, w.place, w.pace, time.Since(w.moved), rand.Float64())
}

// When a claim that waits polls and listens, by its place in the queue and by the pace of the
// handoffs: the time from one grant to the next.

const (
	// shortestPause is what the first in the queue waits between two polls, at first.
	shortestPause = 500 * time.Microsecond
	// longestPause bounds the pauses while the lock changes hands, and so how late a handoff
	// is noticed.
	longestPause = 50 * time.Millisecond
	// slowestPace is from which pace on handoffs say nothing about the next one.
	slowestPace = 200 * time.Millisecond
	// longestStillFirst and longestStill bound the pauses of the first claim and of those far
	// back while the lock stays held.
	longestStillFirst, longestStill = time.Second, 5 * time.Second
)

// pollPause is how long a claim waits before it polls again. Those in front add a tenth
// each time, so a handoff is noticed, on average, a twentieth later than it could be;
// those further back begin later and add half. Once handoffs were seen, a claim waits for
// most of the time that those before it need at their pace. The longer the lock was still,
// the longer the pauses: a twentieth of that for the first in the queue, a tenth for the
// others, which do not get the lock next, and the more the further back. jitter is in [0, 1).
func pollPause(polls, place int, pace, still time.Duration, jitter float64) time.Duration {
	d, grow := float64(shortestPause)*float64(1+2*min(place, 20)), 1.1
	longest := min(still/20, longestStillFirst)
	if place > 0 {
		longest = min(still/10, longestStillFirst*time.Duration(2+place)/2, longestStill)
	}
	if place > 1 {
		grow = 1.5
	}
	d = min(d*math.Pow(grow, float64(min(polls, 100))), float64(max(longest, longestPause)))
	if pace > 0 {
		d = max(d, min((float64(place)*0.7+0.2)*float64(pace), float64(longestPause)))
	}
	return time.Duration(d * (0.75 + jitter/2))
}

const (
	// farFromFront is up to which place all claims listen, nearFront from which place on the
	// others do: in a short queue there is little to save.
	farFromFront, nearFront = 20, 8
	// slowPace is from which pace of handoffs on all claims listen: there are few messages.
	slowPace = 50 * time.Millisecond
	// longestRest bounds for how long a claim is not notified.
	longestRest = 250 * time.Millisecond
)

// listenAfter is for how long a claim need not listen: as long as those before it need, at
// their pace, until it is near the front of the queue, less a sixth. Each connection that
// listens is woken by each notification, so in a crowd most of them would be woken for
// others.
func listenAfter(place int, pace time.Duration) time.Duration {
	if pace <= 0 || pace > slowPace || place <= farFromFront {
		return 0
	}
	return min(time.Duration(place-nearFront)*pace*5/6, longestRest)
}

// paceOf is the pace of so many handoffs; 0 if they say nothing about the next one, because a
// holder took its time.
func paceOf(took time.Duration, handoffs int) time.Duration {
	if pace := took / time.Duration(handoffs); pace < slowestPace {
		return pace
	}
	return 0
}

// meanPace follows the pace of the handoffs. A quick one counts at once: to expect
// the grant too late costs more than to expect it too early.
func meanPace(old, seen time.Duration) time.Duration {
	if old == 0 || seen < old {
		return seen
	}
	return (3*old + seen) / 4
}
