// SPDX-License-Identifier: Apache-2.0

//go:build unix

package supervisor

import (
	"time"

	"golang.org/x/sys/unix"
)

// Instant is a point in time that processes of one machine agree on: nanoseconds
// of a clock that cannot be set and that counts suspend.
type Instant int64

// Now returns the current instant.
func Now() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(clockID, &ts); err != nil {
		// Every supported system has the clock. Without it nothing can be
		// promised, and 0 would make everything look far away.
		panic("supervisor: clock_gettime: " + err.Error())
	}
	return Instant(ts.Nano())
}

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// At returns the instant of a time that this process reads by its own clock.
func At(t time.Time) Instant { return at(Now, func() time.Duration { return time.Until(t) }) }

// at reads the clock first and then how long it is: if the process stands still in
// between, the instant comes too early. The other way round it would come too late, by
// as long as it stood still.
func at(now func() Instant, left func() time.Duration) Instant {
	n := now()
	return n.Add(left())
}
