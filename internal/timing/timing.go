// SPDX-License-Identifier: Apache-2.0

// Package timing decides when: until when a session is trusted, when to renew,
// how long one call may take, when to poll, how long to back off. Every
// function is a function of its arguments; the code that acts on it is elsewhere.
//
//	sent                renew            trusted until      store's end
//	 │                    │                    │                 │
//	 ├──── TTL/3 ─────────┤                    │                 │
//	 ├──── TTL − drift share − margin ─────────┤                 │
//	 ├──── RTT/2 ─┬──────────────── TTL, by the store's clock ───┤
//	              handled
package timing

import "time"

// The defaults of Options, which the command shows, too.
const (
	DefaultTTL = 15 * time.Second
	// DefaultDrift is the share of the TTL by which clocks may disagree.
	DefaultDrift = 0.01
	// DefaultLocalHandoff is how long a lock is handed from goroutine to goroutine of
	// one process before waiters of other processes are served.
	DefaultLocalHandoff = 100 * time.Millisecond
)

// Trust returns how long after the send of a successful Open or KeepAlive the
// session may be trusted. The store cannot have started the TTL before the
// send, so neither the round trip nor a slow reply can make it too long. It is
// not positive if the TTL is too short for drift and margin.
func Trust(ttl time.Duration, drift float64, margin time.Duration) time.Duration {
	return ttl - time.Duration(float64(ttl)*drift) - margin
}

// RenewAfter returns how long after the send of the last renewal to send the
// next: a third of the trusted time, up to a tenth earlier by r in [0,1), so
// that sessions which renew together do not go on doing so.
func RenewAfter(trust time.Duration, r float64) time.Duration {
	third := trust / 3
	return third - time.Duration(float64(third)*r/10)
}

// RenewSpread returns how long from now to send the first renewal of a session, or the
// first after an outage, if RenewAfter with r = 0 is so far away: up to nine tenths earlier
// by r in [0,1). Sessions that a deployment opened together, or that a server which was
// away made wait together, would otherwise renew together for dozens of periods.
func RenewSpread(away time.Duration, r float64) time.Duration {
	return away - time.Duration(float64(max(away, 0))*r*9/10)
}

// TryTimeout bounds one renewal call: half of a renewal period, so that a lost
// reply leaves room for more tries, and never more than what is left.
func TryTimeout(trust, left time.Duration) time.Duration {
	return min(trust/6, left)
}

// Backoff returns how long to wait after n failures in a row (n ≥ 1): up to
// base × 2^(n-1), at most limit, evenly spread by r in [0,1) over its upper half
// so that a herd disperses and no client spins.
func Backoff(n int, base, limit time.Duration, r float64) time.Duration {
	d := min(base, limit)
	for ; n > 1 && d < limit; n-- {
		d = min(2*d, limit)
	}
	return d/2 + time.Duration(float64(d/2)*r)
}

// HintedPoll returns when a waiter polls although it was not notified: at the time
// the store hinted, at least least, at most ttl, and up to a tenth later by r in
// [0,1). No hint is a ttl.
func HintedPoll(hint, least, ttl time.Duration, r float64) time.Duration {
	if hint <= 0 {
		hint = ttl
	}
	d := min(max(hint, least), ttl)
	return d + time.Duration(float64(d)*r/10)
}

// Poll returns the pause before poll number n (n ≥ 1) at a store that pushes
// nothing: it starts at 1/512 of the ttl, grows by half each time up to 1/32 of it,
// and is spread by r in [0,1) over its upper half.
func Poll(n int, ttl time.Duration, r float64) time.Duration {
	d, limit := ttl/512, ttl/32
	for ; n > 1 && d < limit; n-- {
		d += d / 2
	}
	d = min(d, limit)
	return d/2 + time.Duration(float64(d/2)*r)
}
