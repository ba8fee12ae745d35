// SPDX-License-Identifier: Apache-2.0

package leases

import "time"

const (
	// drift is the share by which the clocks of client and server may run differently.
	drift = 0.01
	// marginShare of the TTL is what a client has to stop after its trusted time.
	marginShare = 10
)

// Trusted is how long a client may trust its lease, counted from before it sent the call that
// was received at a time. expires is when the server unlocks the lease unless the client names
// it again, and deadline is until when the server itself may trust it.
func Trusted(received, expires, deadline time.Time, ttl time.Duration) time.Duration {
	end := expires.Add(-ttl / marginShare)
	if deadline.Before(end) {
		end = deadline
	}
	d := end.Sub(received)
	return max(0, d-time.Duration(float64(d)*drift)).Truncate(time.Millisecond)
}

// CutOff reports whether a server has missed renewals of the lease that it has itself: it renews after a third of its TTL, which
// is at least twice that of the client. What is left is enough for the client to move.
func CutOff(now, deadline time.Time, ttl time.Duration) bool { return deadline.Sub(now) < ttl*3/4 }
