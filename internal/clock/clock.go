// SPDX-License-Identifier: Apache-2.0

// Package clock tells how much time has passed, suspend included.
//
// Go's monotonic clock stands still while the machine is suspended, and so do
// its timers. After a resume a lease would look alive although the store has
// long given the lock to somebody else. So an Instant is time.Now, which is
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
	suspended func() time.Duration // since some fixed moment; never shrinks
	base      time.Duration        // its value at start
	seen      atomic.Int64         // the most seen since start
	asked     atomic.Int64         // when it was last asked for, awake time only
}

// New returns a clock that begins now. suspended tells the whole time the
// machine was suspended; nil asks the operating system.
func New(suspended func() time.Duration) *Clock {
	if suspended == nil {
		suspended = machineSuspended
	}
	return &Clock{start: time.Now(), suspended: suspended, base: suspended()}
}

// Now returns the current instant. It asks the operating system for suspends.
func (c *Clock) Now() Instant {
	c.asked.Store(int64(time.Since(c.start)))
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
	return Instant(time.Since(c.start)) + Instant(s)
}

// Recent returns the current instant but for a suspend that ended less than
// recentFor ago: it asks the operating system, which costs more than all the
// rest of a local hand-over, only that often.
func (c *Clock) Recent() Instant {
	awake := time.Since(c.start)
	if awake-time.Duration(c.asked.Load()) >= recentFor {
		return c.Now()
	}
	return Instant(awake) + Instant(c.seen.Load())
}

// recentFor is far below the time a context takes to tell of a suspend.
const recentFor = time.Millisecond

// Sent returns an instant that is not later than now, cheaply: a suspend that
// nobody has noticed yet is missing. That is the safe side for the start of a
// TTL and the wrong side for asking whether one has ended.
func (c *Clock) Sent() Instant {
	return Instant(time.Since(c.start)) + Instant(c.seen.Load())
}

// Time returns the instant as a time of day, for people.
func (c *Clock) Time(i Instant) time.Time { return time.Now().Add(i.Sub(c.Now())) }
