// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// checkWakeup: for no longer than a handoff takes is a lock free while a
// living waiter waits for it. It checks the times in which nothing happens to
// a name, and asks who has it and who waits then.
func checkWakeup(v *view, bad complain) {
	for name, acqs := range v.names {
		if isJob(name) {
			continue
		}
		marks := v.marks(name, acqs)
		if v.h.Schedule.Weather == DataLoss {
			v.starved(name, acqs, marks, bad)
		}
		for i := 1; i < len(marks); i++ {
			from, to := marks[i-1], marks[i]
			if bound := v.handoff(name, from); to.at-from.at > bound {
				if w := v.idle(acqs, from, to); w != nil {
					bad([]*acq{w}, "%s was free from %v to %v, longer than %v, while #%d waited", name, from.at, to.at, bound, w.call.Acq)
				}
			}
		}
	}
}

// starved finds, where the store loses its data and all else is fine, a client
// that waits longer than any loss can explain while no client has the lock,
// whatever else happens to the name in that time.
func (v *view) starved(name string, acqs []*acq, marks []stamp, bad complain) {
	bound := 5 * v.h.Schedule.T
	for _, w := range acqs {
		if w.returned != unmet && w.returned.at-w.called.at <= bound {
			continue
		}
		var free time.Duration
		for i := 1; i < len(marks); i++ {
			from, to := marks[i-1], marks[i]
			if !w.waits(from) || slices.ContainsFunc(acqs, func(a *acq) bool { return v.has(a, from) }) {
				free = 0
			} else if free += to.at - from.at; free > bound {
				bad([]*acq{w}, "%s was free for %v until %v, longer than %v, while #%d waited", name, free, to.at, bound, w.call.Acq)
				break
			}
		}
	}
}

// marks returns the places where something happens to a name.
func (v *view) marks(name string, acqs []*acq) []stamp {
	var marks []stamp
	for _, a := range acqs {
		for _, s := range []stamp{a.called, a.returned, a.notified, a.unlock, a.unlocked, a.dead} {
			if s != unmet {
				marks = append(marks, s)
			}
		}
		if end := v.keptUntil(a); end > 0 {
			marks = append(marks, stamp{v.placeOf(end), end})
		}
		if errors.Is(a.cause, fencelock.LossMaxHold) {
			marks = append(marks, stamp{v.placeOf(v.withdrawn(a)), v.withdrawn(a)})
		}
		if a.downed != unmet {
			marks = append(marks, a.downed)
		}
	}
	for _, x := range v.acts[name] {
		marks = append(marks, x.stamp)
	}
	slices.SortFunc(marks, func(a, b stamp) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.n, b.n)) })
	return marks
}

// placeOf returns the order of the last event that is not after a time.
func (v *view) placeOf(at time.Duration) int {
	n, _ := slices.BinarySearchFunc(v.h.Events, at+1, func(e Event, at time.Duration) int { return cmp.Compare(e.At, at) })
	return n - 1
}

// handoff is how long a handoff may take at a place in the history.
func (v *view) handoff(name string, from stamp) time.Duration {
	s := v.h.Schedule
	pushed := time.Millisecond
	for _, x := range v.acts[name] {
		if x.Kind == Broke && x.n <= from.n && from.at <= x.at+s.T {
			// A client whose grant was broken before it knew of the grant attempts
			// again after a pause, and a push on its way has no effect.
			pushed = s.T * 12 / 10
		}
	}
	if s.Store.NoPush || s.Store.NoQueue {
		pushed = max(pushed, s.T/16)
	}
	switch {
	case s.Weather == Calm || from.n >= v.clear.n:
		return pushed
	case s.Weather == Deaf:
		return s.T*12/10 + pushed // the poll that every waiter makes
	}
	return never // the network is in the way
}

// idle returns a client that waits from one place to the other although the lock
// would fit all who want it.
func (v *view) idle(acqs []*acq, from, to stamp) (waiter *acq) {
	var weight, limit int64
	exclusive, holders := false, 0
	want := 0
	for _, a := range acqs {
		held := v.has(a, from)
		waits := a.waits(from) && a.returned.n >= to.n && to.at > from.at
		if !held && !waits {
			continue
		}
		if waits {
			want++
			if waiter == nil {
				waiter = a
			}
		} else {
			holders++
		}
		if a.call.Limit > 0 {
			limit = slices.Min(v.limits(a.call, from, from))
			weight += min(a.call.Weight, limit)
		}
		reads := held && a.downed.n <= from.n && a.downErr == nil
		exclusive = exclusive || a.call.Mode == driver.Exclusive && !reads
	}
	if want == 0 || (holders > 0 && (exclusive || (limit > 0 && weight > limit))) {
		return nil
	}
	return waiter
}

// keptUntil is how long the MinHold of an acquisition may keep the lock taken, or 0. An
// acquisition that gave up counts too, because the store may have granted it just
// before. The time of a poll is added, because nothing is pushed when a MinHold ends.
func (v *view) keptUntil(a *acq) time.Duration {
	if a.call.Keep == 0 || a.returned == unmet {
		return 0
	}
	return a.returned.at + a.call.Keep + v.h.Schedule.T*12/10
}

// withdrawn is when a lease that reached its fixed end is over in the store too:
// its holder is notified a margin before, a tenth of a lease that is at most 1.2 T, and
// a hundredth of it for the drift.
func (v *view) withdrawn(a *acq) time.Duration { return a.lost.at + v.h.Schedule.T*14/100 }

// has reports whether the store may have a granted to a client at a place where
// faults are over: from its return until its unlock was confirmed, or for a TTL
// if it never was.
func (v *view) has(a *acq, s stamp) bool {
	if a.returned.n > s.n {
		return a.call.All && a.called.n <= s.n // perhaps, and waits for another name
	}
	if s.at < v.keptUntil(a) {
		return true
	}
	if !a.ok {
		return false
	}
	switch {
	case a.freed:
		return s.n < a.unlocked.n
	case errors.Is(a.cause, fencelock.LossMaxHold):
		return s.at < v.withdrawn(a)
	}
	return s.at < min(a.lost.at, a.dead.at, a.unlock.at)+2*v.h.Schedule.T
}
