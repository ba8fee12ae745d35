// SPDX-License-Identifier: Apache-2.0

package fleetsim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencelock/fencelock/internal/timing"
)

// The drift and margin of the library's defaults.
const (
	drift       = 0.01
	marginShare = 10
)

// master does one call at once, in the order in which they arrive.
type master struct {
	free   time.Duration // when all calls that arrived so far are done
	worked time.Duration
}

// serve returns when a call that arrives now begins to be served.
func (m *master) serve(now, service, wake time.Duration) (begins time.Duration) {
	if m.free <= now {
		service += wake
	}
	begins = max(now, m.free)
	m.free = begins + service
	m.worked += service
	return begins
}

// run is one simulation.
type run struct {
	Fleet
	rand    *rand.Rand
	queue   events
	masters []master
	begun   []time.Duration // of one call at all masters of a quorum
	trusted []time.Duration // until when a session is
	reopen  []bool          // whether a session must be reclaimed
	failed  bool            // the master has failed
	out     Outcome
}

// newRun plans the first calls.
func newRun(f Fleet) *run {
	sessions := f.Processes * f.Sessions
	r := &run{
		Fleet: f, rand: rand.New(rand.NewPCG(f.Seed, 1)), masters: make([]master, f.Masters), begun: make([]time.Duration, f.Masters),
		trusted: make([]time.Duration, sessions), reopen: make([]bool, sessions), queue: make(events, 0, sessions+2*f.Processes),
	}
	bins := int(f.For/Bin) + 1
	r.out.Arrivals, r.out.Worked = make([]int, bins), make([]float64, bins)
	for s := range int32(sessions) {
		r.trusted[s] = r.trust()
		first := event{kind: renew, of: s, at: time.Duration(r.rand.Float64() * float64(r.trust()/3))}
		if f.Restart {
			first = event{kind: open, of: s}
		}
		r.queue.push(first)
	}
	for p := range int32(f.Processes) {
		if f.Rate > 0 {
			r.queue.push(event{kind: lock, of: p, at: r.pause()})
		}
		if f.Costs.Connected > 0 {
			r.queue.push(event{kind: connect, of: p, at: time.Duration(r.rand.Float64() * float64(time.Second))})
		}
	}
	return r
}

func (r *run) trust() time.Duration { return timing.Trust(r.TTL, drift, r.TTL/marginShare) }

// pause is the time between two acquisitions of a process.
func (r *run) pause() time.Duration {
	mean := float64(r.Processes) / r.Rate
	return time.Duration(r.rand.ExpFloat64() * mean * float64(time.Second))
}

// at returns the master of a call. The sessions of a process are on different ones.
func (r *run) at(e event) int {
	switch e.kind {
	case lock, connect:
		return r.rand.IntN(len(r.masters))
	case unlock:
		return int(e.master)
	}
	process, session := int(e.of)/r.Sessions, int(e.of)%r.Sessions
	return (process + session) % len(r.masters)
}

func (r *run) step(e event) {
	at := r.at(e)
	if e.kind != connect {
		r.out.Calls++
		r.out.Arrivals[int(e.at/Bin)]++
	}
	down := r.Down > 0 && at == 0 && e.at >= r.Down && e.at < r.Down+r.Downtime
	if down && !r.Quorum {
		r.retry(e)
		return
	}
	if r.Down > 0 && e.at >= r.Down && !r.failed {
		r.fail()
	}
	begins := r.serve(e, at)
	r.note(e, begins)
	r.next(e, at, begins)
}

// fail makes the sessions of the first master be reclaimed.
func (r *run) fail() {
	r.failed = true
	for s := range r.reopen {
		r.reopen[s] = r.Quorum || r.at(event{kind: renew, of: int32(s)}) == 0
	}
}

// serve returns when a call begins to be served, by its master or by a majority.
func (r *run) serve(e event, at int) time.Duration {
	service, wake := r.service(e), r.Costs.Wake
	if e.kind == connect {
		wake = r.Costs.Connected - service
	}
	if !r.Quorum {
		before := r.masters[at].worked
		begins := r.masters[at].serve(e.at, service, wake)
		if at == 0 {
			r.out.Worked[min(int(begins/Bin), len(r.out.Worked)-1)] += float64(r.masters[0].worked-before) / float64(Bin)
		}
		return begins
	}
	for i := range r.masters {
		r.begun[i] = r.masters[i].serve(e.at, service, wake)
	}
	slices.Sort(r.begun)
	return r.begun[len(r.begun)/2]
}

// service is how long a call takes a master that is awake.
func (r *run) service(e event) time.Duration {
	c := &r.Costs
	switch e.kind {
	case lock:
		return c.Pair / 2
	case unlock:
		if e.handoff {
			return c.Handoff - c.Pair/2
		}
		return c.Pair / 2
	case connect:
		return c.connectedAwake()
	}
	if r.reopen[e.of] {
		r.reopen[e.of] = false
		return c.KeepAlive + time.Duration(r.Leases)*c.Reclaim
	}
	return c.KeepAlive
}

// retry lets a process try again, as the library does.
func (r *run) retry(e event) {
	if e.kind == connect {
		e.at += time.Second
		r.queue.push(e)
		return
	}
	e.failures++
	base, limit := r.trust()/100, r.trust()/12
	if e.kind == lock {
		base, limit = r.TTL/500, r.TTL/15
	}
	e.at += timing.Backoff(int(e.failures), base, limit, r.rand.Float64())
	r.queue.push(e)
}

// next plans what a process does after a call that succeeded.
func (r *run) next(e event, at int, begins time.Duration) {
	n := event{kind: renew, of: e.of}
	switch e.kind {
	case lock:
		handoff, held := r.rand.Float64() < r.Contended, time.Duration(r.rand.ExpFloat64()*float64(r.Hold))
		r.queue.push(event{kind: unlock, of: e.of, master: int16(at), handoff: handoff, at: begins + r.Costs.Pair/2 + r.Costs.Wake + turnaround + held})
		n.kind, n.at = lock, e.at+r.pause()
	case unlock:
		return
	case connect:
		n.kind, n.at = connect, e.at+time.Second
	default:
		n.at = e.at + timing.RenewAfter(r.trust(), r.rand.Float64())
		if e.kind == open || e.failures > 0 { // as other sessions probably did
			n.at = begins + timing.RenewSpread(e.at+timing.RenewAfter(r.trust(), 0)-begins, r.rand.Float64())
		}
	}
	r.queue.push(n)
}

// turnaround is how long an answer takes to the process, and its next call to the master, on one machine.
const turnaround = 30 * time.Microsecond

// sampled is how many waits are kept.
const sampled = 100_000

func (r *run) note(e event, begins time.Duration) {
	if e.kind == connect {
		return
	}
	wait := begins - e.at
	if n := len(r.out.Waits); n < sampled {
		r.out.Waits = append(r.out.Waits, wait)
	} else if i := r.rand.IntN(r.out.Calls); i < n {
		r.out.Waits[i] = wait
	}
	if r.Down > 0 && e.at > r.Down && wait > Bin {
		r.out.Calm = max(r.out.Calm, begins-r.Down)
	}
	if e.kind != open && e.kind != renew {
		return
	}
	if e.kind == renew && begins > r.trusted[e.of] {
		r.out.Lost++
	}
	r.trusted[e.of] = e.at + r.trust()
}

func (r *run) finish() Outcome {
	base := r.Costs.Base / time.Duration(len(r.masters))
	var all time.Duration
	for i := range r.masters {
		m := &r.masters[i]
		m.worked += time.Duration(base.Seconds() * float64(r.For))
		done := m.worked - max(0, m.free-r.For) // the rest is work that is queued at the end
		r.out.Busy = max(r.out.Busy, done.Seconds()/r.For.Seconds())
		all += done
	}
	r.out.Mean = all.Seconds() / r.For.Seconds() / float64(len(r.masters))
	return r.out
}
