// SPDX-License-Identifier: Apache-2.0

// Package clock measures how much time has passed, suspend included.
//
// Go's monotonic clock stands still while the machine is suspended, and so do
// its timers. After a resume a lease would look alive although the store has
// long given the lock to another client. So an Instant is time.Now, which is
// fake inside a testing/synctest bubble, plus the time the machine was
// suspended since the Clock was made: on Linux the growth of CLOCK_BOOTTIME
// minus CLOCK_MONOTONIC, elsewhere the growth of the wall clock over the
// monotonic one when it is larger than any time daemon slews.
package clock

import (
	"sync/atomic"
	"time"
)

// Instant is a point in time: nanoseconds since the Clock was made.
type Instant int64

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Clock makes Instants that can be compared with each other.
type Clock struct {
	start     time.Time
	awake     func() time.Duration // since start, suspends left out; nil: time.Since
	suspended func() time.Duration // since some fixed moment; never shrinks
	base      time.Duration        // its value at start
	seen      atomic.Int64         // the most seen since start
	asked     atomic.Int64         // when it was last asked for, awake time only
	// ahead returns how far the wall clock is ahead of the monotonic one, give or
	// take a constant. A suspend makes it grow at once. Nil: unknown.
	ahead func(now time.Time) time.Duration
	was   atomic.Int64 // its value when suspended was last asked for
}

// New returns a clock that begins now. suspended returns the whole time the
// machine was suspended; nil asks the operating system.
func New(suspended func() time.Duration) *Clock {
	c := &Clock{start: time.Now(), suspended: suspended}
	if suspended == nil {
		c.suspended = machineSuspended
		c.ahead = func(now time.Time) time.Duration { return now.Round(0).Sub(c.start.Round(0)) - now.Sub(c.start) }
	}
	c.base = c.suspended()
	return c
}

// NewFake returns a clock for a process that a test suspends. awake returns how
// long the process has been running, suspends left out, and suspended how long
// it was suspended.
func NewFake(awake, suspended func() time.Duration) *Clock {
	return &Clock{awake: awake, suspended: suspended, base: suspended()}
}

// running returns how long the process has been awake since start.
func (c *Clock) running() time.Duration {
	if c.awake != nil {
		return c.awake()
	}
	return time.Since(c.start)
}

// Now returns the current instant. It asks the operating system for suspends.
func (c *Clock) Now() Instant {
	c.asked.Store(int64(c.running()))
	if c.ahead != nil {
		c.was.Store(int64(c.ahead(time.Now())))
	}
	s := int64(c.suspended() - c.base)
	for {
		seen := c.seen.Load()
		if s <= seen {
			s = seen
			break
		}
		if c.seen.CompareAndSwap(seen, s) {
			break
		}
	}
	return Instant(c.running()) + Instant(s)
}

// Recent returns the current instant. It asks the operating system, which costs
// more than all the rest of a local handoff, only if there may be something to
// learn: it asked more than recentFor ago, or the wall clock moved against the
// monotonic one. The kernel adds a suspend to the wall clock in the same step as to
// the time since boot, and the wall clock is cheap to read.
func (c *Clock) Recent() Instant {
	if c.ahead == nil {
		return c.Now()
	}
	now := time.Now()
	awake := now.Sub(c.start)
	if awake-time.Duration(c.asked.Load()) >= recentFor || (c.ahead(now)-time.Duration(c.was.Load())).Abs() >= recentFor {
		return c.Now()
	}
	return Instant(awake) + Instant(c.seen.Load())
}

// recentFor is far below the time a context takes to notice a suspend.
const recentFor = time.Millisecond

// Sent returns an instant that is not later than now, cheaply: a suspend that
// was not noticed yet is missing. That is the safe side for the start of a
// TTL and the wrong side for asking whether one has ended.
func (c *Clock) Sent() Instant {
	return Instant(c.running()) + Instant(c.seen.Load())
}

// Time returns the instant as a time of day, for people.
func (c *Clock) Time(i Instant) time.Time { return time.Now().Add(i.Sub(c.Now())) }

// slewed is how far a time daemon may move the wall clock without a suspend.
const slewed = 2 * time.Second

// gap derives suspends from how far the wall clock is ahead of the monotonic one,
// on systems that do not report them. A suspend shorter than slewed is not seen. A
// forward step of the wall clock looks like a suspend; it costs a lease, never a
// guarantee.
type gap struct {
	lowest    time.Duration // since the last suspend
	suspended time.Duration // in all
}

// see takes a reading and returns the time suspended in all. A wall clock that was
// set back must not hide the suspends after that, so growth counts from the lowest
// reading.
func (g *gap) see(ahead time.Duration) time.Duration {
	if growth := ahead - g.lowest; growth > slewed {
		g.suspended += growth
		g.lowest = ahead
	}
	g.lowest = min(g.lowest, ahead)
	return g.suspended
}
