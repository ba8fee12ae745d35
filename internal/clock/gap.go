// SPDX-License-Identifier: Apache-2.0

package clock

import "time"

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
