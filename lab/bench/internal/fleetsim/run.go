// SPDX-License-Identifier: Apache-2.0

package fleetsim

import (
	"math"
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
	lost    []bool          // whether a session was
	failed  bool            // the master has failed
	out     Outcome
}

// newRun plans the first calls.
func newRun(f Fleet) *run {
	sessions := f.Processes * f.Sessions
	r := &run{
		Fleet: f, rand: rand.New(rand.NewPCG(f.Seed, 1)), masters: make([]master, f.Masters), begun: make([]time.Duration, f.Masters),
		trusted: make([]time.Duration, sessions), reopen: make([]bool, sessions), lost: make([]bool, sessions),
		queue: make(events, 0, sessions+2*f.Processes),
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
			first := event{kind: connect, of: p, master: int16(r.rand.IntN(f.Masters))}
			first.at = time.Duration(r.rand.Float64() * float64(r.asked()))
			r.queue.push(first)
		}
	}
	return r
}

func (r *run) trust() time.Duration { return timing.Trust(r.TTL, drift, r.TTL/marginShare) }

// asked is the time between two questions of a process whether a connection is well. It asks about one after the other.
func (r *run) asked() time.Duration { return time.Second / time.Duration(max(1, r.Costs.Connections)) }

// pause is the time between two acquisitions of a process.
func (r *run) pause() time.Duration {
	mean := float64(r.Processes) / r.Rate
	return time.Duration(r.rand.ExpFloat64() * mean * float64(time.Second))
}

// at returns the master of a call. The sessions of a process are on different ones.
func (r *run) at(e event) int {
	switch e.kind {
	case lock:
		if e.failures == 0 {
			return r.rand.IntN(len(r.masters))
		}
		return int(e.master) // the name is the same
	case unlock, connect:
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
	if r.Down > 0 && e.at >= r.Down+r.Downtime && !r.failed {
		r.fail()
	}
	if at == 0 && !r.Quorum && r.down(e.at) {
		e.master = int16(at)
		r.retry(e)
		return
	}
	begins, ends := r.serve(e, at)
	r.note(e, begins, ends)
	r.next(e, at, begins)
}

// down reports whether the first master is down.
func (r *run) down(now time.Duration) bool {
	return r.Down > 0 && now >= r.Down && now < r.Down+r.Downtime
}

// fail makes the sessions of the first master be reclaimed, now that it is back.
func (r *run) fail() {
	r.failed = true
	for s := range r.reopen {
		r.reopen[s] = r.Quorum || r.at(event{kind: renew, of: int32(s)}) == 0
	}
}

// serve returns when a call begins to be served, and when its master or a majority is done with it.
func (r *run) serve(e event, at int) (begins, ends time.Duration) {
	service, wake := r.service(e), r.Costs.Wake
	if e.kind == connect {
		idle, awake := r.Costs.connected()
		wake = idle - awake
	}
	reclaims := r.reclaims(e)
	if !r.Quorum {
		return r.serveAt(at, e.at, service, reclaims, wake)
	}
	for i := range r.masters {
		switch {
		case i == 0 && r.down(e.at):
			r.begun[i] = math.MaxInt64 // never
		case i == 0:
			r.begun[i], _ = r.serveAt(i, e.at, service, reclaims, wake)
		default:
			r.begun[i], _ = r.serveAt(i, e.at, service, 0, wake)
		}
	}
	slices.Sort(r.begun)
	begins = r.begun[len(r.begun)/2]
	return begins, begins + service
}

// serveAt lets one master serve a call, and the reclaims that come with it.
func (r *run) serveAt(at int, now, service, reclaims, wake time.Duration) (begins, ends time.Duration) {
	m := &r.masters[at]
	before := m.worked
	begins = m.serve(now, service+reclaims, wake)
	if reclaims > 0 {
		r.out.Reclaimed = max(r.out.Reclaimed, m.free-r.Down)
	}
	if at == 0 {
		r.out.Worked[min(int(begins/Bin), len(r.out.Worked)-1)] += float64(m.worked-before) / float64(Bin)
	}
	return begins, m.free
}

// reclaims is what it costs to reclaim the leases of a session that finds out, by its renewal, that its master has failed.
func (r *run) reclaims(e event) time.Duration {
	if e.kind != open && e.kind != renew || !r.reopen[e.of] {
		return 0
	}
	r.reopen[e.of] = false
	return time.Duration(r.Leases) * r.Costs.Reclaim
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
		_, awake := c.connected()
		return awake
	}
	return c.KeepAlive
}

// retry lets a process try again, as the library does.
func (r *run) retry(e event) {
	if e.kind == connect {
		r.next(e, int(e.master), e.at)
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
		n.kind, n.at, n.master = connect, e.at+r.asked(), int16((at+1)%len(r.masters))
	default:
		n.at = max(begins, e.at+timing.RenewAfter(r.trust(), r.rand.Float64())) // not before the answer
		if e.kind == open || e.failures > 0 {                                   // as other sessions probably did
			n.at = begins + timing.RenewSpread(e.at+timing.RenewAfter(r.trust(), 0)-begins, r.rand.Float64())
		}
	}
	r.queue.push(n)
}

// turnaround is how long an answer takes to the process, and its next call to the master, on one machine.
const turnaround = 30 * time.Microsecond

// sampled is how many waits are kept.
const sampled = 100_000

func (r *run) note(e event, begins, ends time.Duration) {
	if e.kind == connect {
		return
	}
	wait := begins - e.at
	if n := len(r.out.Waits); n < sampled {
		r.out.Waits = append(r.out.Waits, wait)
	} else if i := r.rand.IntN(r.out.Calls); i < n {
		r.out.Waits[i] = wait
	}
	if r.Down > 0 && e.at > r.Down && (wait > Bin || e.failures > 0) {
		r.out.Calm = max(r.out.Calm, ends-r.Down)
	}
	if e.kind != open && e.kind != renew {
		return
	}
	if e.kind == renew && ends > r.trusted[e.of] && !r.lost[e.of] {
		r.lost[e.of] = true
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
