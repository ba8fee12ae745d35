// SPDX-License-Identifier: Apache-2.0

package sim

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
			bad([]*acq{a}, "in the end nobody has %s, and a fresh client got: %v", a.call.Name, a.err)
		case !a.ok:
			bad([]*acq{a}, "#%d failed to get %s within %v, long after the last fault: %v", a.call.Acq, a.call.Name, took, a.err)
		case took > bound:
			bad([]*acq{a}, "#%d got %s after %v, long after the last fault; the bound is %v", a.call.Acq, a.call.Name, took, bound)
		}
	}
}

// checkLeak: Close comes to its end, ends every lease, and leaves no goroutine.
func checkLeak(v *view, bad complain) {
	if v.h.Stuck != nil {
		bad(nil, "%v", v.h.Stuck)
		return
	}
	last := map[int]Event{}
	began := map[int]Event{}
	for _, e := range v.h.Events {
		switch e.Kind {
		case Closing:
			began[e.Client] = e
		case Closed:
			last[e.Client] = e
		}
	}
	for client, e := range last {
		took := e.At - began[client].At
		if !e.OK || (v.untouched(client) && took > 0) {
			bad(nil, "closing c%d took %v and ended with: %v", client, took, e.Err)
		}
	}
	for _, a := range v.acqs {
		closed, is := v.closed[a.call.Client]
		switch {
		case !a.ok || a.dead != unmet:
		case a.told == unmet:
			bad([]*acq{a}, "#%d of %s was never told that its lease has ended", a.call.Acq, a.call.Name)
		case is && a.returned.n < closed.n && a.told.at > closed.at:
			bad([]*acq{a}, "#%d of %s was told at %v that its lease has ended, its client was closed at %v",
				a.call.Acq, a.call.Name, a.told.at, closed.at)
		}
	}
}

// checkSpin: no client called the store again and again at one instant.
func checkSpin(v *view, bad complain) {
	for client, spun := range v.h.Spun {
		if spun {
			bad(nil, "c%d called the store without end at one instant", client)
		}
	}
}
