// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"slices"
	"time"
)

// pulse is from when on the leader counts the time of a session, at worst.
//
//	process    k1 ─────────── k2 ─ answered
//	             ╲              ╲
//	follower      ●──── ping ─▶  ●  ✗ lost, with the process
//	leader        └ counts from k1, and has committed k2
//
// A transaction that a follower passes on does not count as a sign of life at the leader. The
// leader hears of a follower's sessions in the answers to its pings, each half tick, and
// ends a session by that. So an answer proves nothing of the request that it is the
// answer to. It proves something of the one before: requests and answers to pings come
// to the leader on one connection and in order, so if there was a ping between k1 and
// k2, the leader heard of k1 before it committed k2.
//
// Connecting is different: the leader itself notes a new session, and one that moves to
// another server. So it does not matter whether k1 and k2 went over one connection.
//
// Rejected: to count from the request itself, less half a tick. That is how long the
// leader may take to hear, if it does. If it does not, it may be a whole renewal less.
type pulse struct {
	// certain is the latest moment that the leader counts from, or a later one.
	certain time.Time
	// recent are requests that were answered and become certain.
	recent []beat
}

// beat is a request that was answered.
type beat struct{ sent, answered time.Time }

// heard notes a request that a majority has answered, and returns how long before it
// was sent the leader may have begun to count. Between two requests of which the later
// one proves the earlier lies at least one tick: the leader sends two pings in it, and
// one may be late.
func (p *pulse) heard(b beat, tick time.Duration) (early time.Duration) {
	p.recent = slices.DeleteFunc(p.recent, func(r beat) bool {
		proved := b.sent.Sub(r.answered) >= tick
		if proved && r.sent.After(p.certain) {
			p.certain = r.sent
		}
		return proved
	})
	// Of requests that follow each other closely one is enough.
	if n := len(p.recent); n == 0 || b.sent.Sub(p.recent[n-1].sent) >= tick/4 {
		p.recent = append(p.recent, b)
	}
	return max(0, elapsed(p.certain, b.sent))
}

// elapsed is the time from a to b, or more. Go's clock stands still while the machine is
// suspended, the time of day does not; that one may be set, which is why the larger of
// both counts. If it was set ahead, one heartbeat returns a shorter TTL, or fails and is
// made again.
func elapsed(a, b time.Time) time.Duration {
	return max(b.Sub(a), b.Round(0).Sub(a.Round(0)))
}
