// SPDX-License-Identifier: Apache-2.0

//go:build unix

package warden

import (
	"time"

	"golang.org/x/sys/unix"
)

// Instant is a point in time that processes of one machine agree on: nanoseconds
// of a clock that nobody can set and that counts suspend.
type Instant int64

// Now returns the current instant.
func Now() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(clockID, &ts); err != nil {
		// Every supported system has the clock. Without it nothing can be
		// promised, and 0 would make everything look far away.
		panic("warden: clock_gettime: " + err.Error())
	}
	return Instant(ts.Nano())
}

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }
