// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"slices"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// checkStuck: when all faults and their consequences are over, every
// acquisition of a living client succeeds within the bound, and in the end a
// fresh client gets every lock at once.
func checkStuck(v *view, bad complain) {
	bound := v.h.Schedule.Bound()
	for _, a := range v.acqs {
		_, closed := v.closed[a.call.Client]
		if a.called.n < v.clear.n || a.dead != unmet || (closed && v.closed[a.call.Client].n < v.clear.n) {
			continue
		}
		took := a.returned.at - a.called.at
		switch {
		case a.returned == unmet:
			bad([]*acq{a}, "#%d of %s never returned", a.call.Acq, a.call.Name)
		case !a.ok && a.call.Client == len(v.h.Schedule.Clients):
			bad([]*acq{a}, "in the end no client has %s, and a fresh client got: %v", a.call.Name, a.err)
		case !a.ok:
			bad([]*acq{a}, "#%d failed to get %s within %v, long after the last fault: %v", a.call.Acq, a.call.Name, took, a.err)
		case took > bound:
			bad([]*acq{a}, "#%d got %s after %v, long after the last fault; the bound is %v", a.call.Acq, a.call.Name, took, bound)
		}
	}
}

// checkLeak: Close comes to its end, ends every lease, and leaves no goroutine, and
// no claim in the store unless its error says so, or the store brought it back.
func checkLeak(v *view, bad complain) {
	if v.h.Stuck != nil {
		bad(nil, "%v", v.h.Stuck)
		return
	}
	v.checkRemained(bad)
	last := map[int]Event{}
	first := map[int]Event{}
	began := map[int]Event{}
	for _, e := range v.h.Events {
		switch e.Kind {
		case Closing:
			began[e.Client] = e
		case Closed:
			last[e.Client] = e
			if _, ok := first[e.Client]; !ok {
				first[e.Client] = e
			}
		}
	}
	for client, e := range last {
		took := e.At - began[client].At
		if early := first[client]; e.N == 0 && !e.OK && early.At < e.At && repeats(e.Err, early.Err) {
			continue // closed in the storm, and closing again returns that answer
		}
		if !e.OK || (v.untouched(client) && took > 0) {
			bad(nil, "closing c%d took %v and ended with: %v", client, took, e.Err)
		}
	}
	for _, a := range v.acqs {
		closed, is := v.closed[a.call.Client]
		switch {
		case !a.ok || a.dead != unmet:
		case a.notified == unmet:
			bad([]*acq{a}, "#%d of %s was never notified that its lease has ended", a.call.Acq, a.call.Name)
		case is && a.returned.n < closed.n && a.notified.at > closed.at:
			bad([]*acq{a}, "#%d of %s was notified at %v that its lease has ended, its client was closed at %v",
				a.call.Acq, a.call.Name, a.notified.at, closed.at)
		}
	}
}

// repeats reports whether closing again returned the answer of the first Close.
// If the context of the first Close ended before the answer was known, the second
// returns what the store did not confirm.
func repeats(again, first error) bool {
	return again == first || errors.Is(first, context.DeadlineExceeded) && !errors.Is(first, fencelock.ErrUnavailable) &&
		errors.Is(again, fencelock.ErrUnavailable)
}

// checkRemained: a Close without an error leaves no claim in the store. It cannot
// know of a store that confirmed the end of a session and was then restored to a
// copy from before: while Close waits for another shard, the claims are back, until
// the session's TTL is over. Nor can it know of a claim that came back in this way after
// its withdrawal was confirmed. A session without claims is ended by one call; if
// that fails, the claim is there until the TTL is over.
func (v *view) checkRemained(bad complain) {
	ended, excused := map[driver.SessionID]int{}, map[int]int{}
	for _, e := range v.h.Events {
		switch e.Kind {
		case SessionEnded:
			ended[e.Session] = e.Since
		case Closing:
			excused[e.Client] = 0
		case Remained:
			since, is := ended[e.Session]
			if !is {
				since = e.Since // 0: the client had something to give back
			}
			if since > 0 && v.restoredOver(since) {
				excused[e.Client] += e.N
			}
		case Closed:
			if n := e.N - excused[e.Client]; e.OK && n > 0 {
				bad(nil, "closing c%d at %v returned no error, and the store has %d of its claims", e.Client, e.At, n)
			}
		}
	}
}

// restoredOver reports whether the store was restored after that place in the
// history to a copy from before it.
func (v *view) restoredOver(place int) bool {
	return slices.ContainsFunc(v.dataLosses, func(x act) bool { return x.Kind == Restored && x.n >= place && x.Since <= place })
}

// checkSpin: no client called the store again and again at one instant.
func checkSpin(v *view, bad complain) {
	for client, spun := range v.h.Spun {
		if spun {
			bad(nil, "c%d called the store without end at one instant", client)
		}
	}
}
