// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/audit"
)

// limits bound how often a caller may call. Reads are cheap, because no read calls the
// store; breaks are rare; and failed proofs of identity are either mistakes or guesses.
type limits struct {
	reads, locks, breaks, failures *limiter
}

func newLimits() *limits {
	return &limits{
		reads:    newLimiter(100, 400),
		locks:    newLimiter(2000, 10_000),
		breaks:   newLimiter(0.2, 10),
		failures: newLimiter(1, 20),
	}
}

// of is the limit of a call.
func (l *limits) of(r *route) *limiter {
	if r.locks {
		return l.locks
	}
	return l.reads
}

// maxBuckets bounds the memory of a limiter. Callers beyond that share one bucket.
const maxBuckets = 10_000

// limiter is a token bucket for each key.
type limiter struct {
	perSecond, burst float64

	mu      sync.Mutex
	buckets map[string]*bucket
}

type bucket struct {
	left  float64
	at    time.Time
	quiet int         // denials without a line in the audit log
	last  audit.Entry // the last of them
	noted time.Time   // of the last line
}

func newLimiter(perSecond, burst float64) *limiter {
	return &limiter{perSecond: perSecond, burst: burst, buckets: map[string]*bucket{}}
}

// fill computes what is in a bucket now.
func (l *limiter) fill(b *bucket, now time.Time) {
	b.left = min(l.burst, b.left+now.Sub(b.at).Seconds()*l.perSecond)
	b.at = now
}

// bucketLocked finds the bucket of a key. l.mu must be held.
func (l *limiter) bucketLocked(key string, now time.Time) *bucket {
	b := l.buckets[key]
	if b == nil && len(l.buckets) >= maxBuckets {
		for k, old := range l.buckets {
			if l.fill(old, now); old.left >= l.burst && old.quiet == 0 {
				delete(l.buckets, k)
			}
		}
		if len(l.buckets) >= maxBuckets {
			key = ""
			b = l.buckets[key]
		}
	}
	if b == nil {
		b = &bucket{left: l.burst, at: now}
		l.buckets[key] = b
	}
	l.fill(b, now)
	return b
}

// allow takes one from the bucket of a key and reports whether there was one.
func (l *limiter) allow(key string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bucketLocked(key, now)
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// noteEvery is how often calls above a limit have a line in the audit log.
const noteEvery = time.Minute

// note reports whether a denial above the limit shall have a line now, and how many since
// the last line had none. One that has no line is left to due.
func (l *limiter) note(key string, e audit.Entry) (line bool, more int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bucketLocked(key, e.Time)
	if e.Time.Sub(b.noted) < noteEvery {
		b.quiet++
		b.last = e
		return false, 0
	}
	more, b.quiet, b.noted, b.last = b.quiet, 0, e.Time, audit.Entry{}
	return true, more
}

// due returns a line for each key with denials that have none: the last of them, with the number of the others. Without all
// it leaves out keys whose last line is not old enough.
func (l *limiter) due(now time.Time, all bool) (lines []audit.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.buckets {
		if b.quiet > 0 && (all || now.Sub(b.noted) >= noteEvery) {
			b.last.More = b.quiet - 1
			lines = append(lines, b.last)
			b.quiet, b.noted, b.last = 0, now, audit.Entry{}
		}
	}
	return lines
}

// remoteKey is the address of a client, for limits. A client of IPv6 has at least a /64.
func remoteKey(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if addr = addr.Unmap(); addr.Is6() {
		if net, err := addr.WithZone("").Prefix(64); err == nil {
			return net.String()
		}
	}
	return addr.String()
}

// maxUserCalls bounds the memory and the processor time that one user can use at once.
const maxUserCalls = 16

// maxUserWaits is the same for calls that take locks: most of them wait.
const maxUserWaits = 5000

// callsOf counts the calls of users, those that take locks by themselves: they must not keep an
// operator of the same name from looking.
func (s *Server) callsOf(r *route) (open *inFlight, most int) {
	if r.locks {
		return &s.userWaits, maxUserWaits
	}
	return &s.userCalls, maxUserCalls
}

// inFlight counts what callers have open at once.
type inFlight struct {
	mu   sync.Mutex
	open map[string]int
}

// enter reports whether a caller has less than a limit open, and counts one more then.
func (f *inFlight) enter(name string, limit int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open[name] >= limit {
		return false
	}
	if f.open == nil {
		f.open = map[string]int{}
	}
	f.open[name]++
	return true
}

func (f *inFlight) leave(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open[name]--; f.open[name] == 0 {
		delete(f.open, name)
	}
}
