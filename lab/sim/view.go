// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// never is later than everything in a history.
const never = math.MaxInt

// stamp is a place in a history: its order and its time.
type stamp struct {
	n  int
	at time.Duration
}

var unmet = stamp{never, math.MaxInt64}

// acq is one acquisition, put together from its events.
type acq struct {
	call     Event
	called   stamp
	returned stamp // unmet if the run ended before
	err      error
	ok       bool
	token    driver.Token
	notified stamp // unmet if its context never ended
	lost     stamp // the same, but also unmet if its unlock ended it
	cause    error
	unlock   stamp // called
	unlocked stamp // returned
	freed    bool  // the unlock was confirmed
	unlError error
	dead     stamp // its process died
	downing  stamp // a downgrade was called
	downed   stamp // and returned
	downErr  error
	broken   stamp // an operator broke its grant
	resigned stamp // Resign returned
}

// view is a history as the checkers like to see it.
type view struct {
	h      *History
	acqs   []*acq            // in the order of calls
	names  map[string][]*acq // the same by name
	killed map[int]stamp
	closed map[int]stamp // Close was called
	clear  stamp
	// clockSane: the store's clock did not jump ahead.
	clockSane bool
	// tokensSane: the clock did not go back before a data loss, after which
	// it seeds the tokens.
	tokensSane bool
	wentBack   bool
	// lostGrants: the store lost grants without a grace that protects them.
	lostGrants bool
	// dataLost: the store lost something, with grace or without.
	dataLost bool
	// losses are the places where a new incarnation began.
	losses []stamp
	// dataLosses are those of them that lost data.
	dataLosses []act
	// sessionsLost are the places where a client lost a session.
	sessionsLost map[int][]stamp
	// sessionsOver are the places where a client ended a session.
	sessionsOver map[driver.SessionID]stamp
	// leasesLost are the places where a client lost a lease, by name and token.
	leasesLost map[leaseID]stamp
	// handoffs are the places where a client gave a grant to one of its waiters,
	// by name and the waiter's token.
	handoffs map[leaseID]stamp
	// suspends are the times in which a client's machine stood still.
	suspends map[int][]pause
	// acts are what an operator did, by name.
	acts map[string][]act
}

// leaseID names a lease.
type leaseID struct {
	client int
	name   string
	token  driver.Token
}

// pause is a suspend of a machine.
type pause struct{ from, to stamp }

// act is something that was done to the store.
type act struct {
	Event
	stamp
}

// newView puts the events of a history together.
func newView(h *History) *view {
	v := &view{h: h, names: map[string][]*acq{}, killed: map[int]stamp{}, closed: map[int]stamp{}, acts: map[string][]act{},
		sessionsLost: map[int][]stamp{}, sessionsOver: map[driver.SessionID]stamp{}, leasesLost: map[leaseID]stamp{}, handoffs: map[leaseID]stamp{}, suspends: map[int][]pause{},
		clear: unmet, clockSane: true, tokensSane: true}
	byID := map[int]*acq{}
	for n, e := range h.Events {
		at := stamp{n, e.At}
		switch a := byID[e.Acq]; {
		case e.Kind == Called:
			a = &acq{call: e, called: at, returned: unmet, notified: unmet, lost: unmet, unlock: unmet, unlocked: unmet,
				dead: unmet, downing: unmet, downed: unmet, broken: unmet, resigned: unmet}
			byID[e.Acq] = a
			v.acqs = append(v.acqs, a)
			v.names[e.Name] = append(v.names[e.Name], a)
		case a != nil:
			a.take(e, at)
		default:
			v.take(e, at)
		}
	}
	for _, a := range v.acqs {
		if at, ok := v.killed[a.call.Client]; ok {
			a.dead = at
		}
		for _, x := range v.acts[a.call.Name] {
			if x.Kind == Broke && a.ok && a.token.Base() == x.Token && a.broken == unmet {
				a.broken = x.stamp
			}
		}
	}
	return v
}

func (a *acq) take(e Event, at stamp) {
	switch e.Kind {
	case Returned:
		a.returned, a.ok, a.token, a.err = at, e.OK, e.Token, e.Err
	case Notified:
		a.notified, a.cause = at, e.Err
		if !errors.Is(e.Err, fencelock.ErrReleased) {
			a.lost = at
		}
	case Unlocking:
		a.unlock = at
	case Unlocked:
		a.unlocked, a.freed, a.unlError = at, e.OK, e.Err
	case Downgrading:
		a.downing = at
	case Resigned:
		if e.OK {
			a.resigned = at
		}
	case Downgraded:
		a.downed, a.downErr = at, e.Err
	}
}

func (v *view) take(e Event, at stamp) {
	switch e.Kind {
	case Killed:
		v.killed[e.Client] = at
	case Closing:
		if _, again := v.closed[e.Client]; !again {
			v.closed[e.Client] = at
		}
	case Stepped:
		v.clockSane = v.clockSane && e.D < 0
		v.wentBack = v.wentBack || e.D < 0
	case LostData, Restored:
		v.tokensSane = v.tokensSane && !v.wentBack
		v.lostGrants = v.lostGrants || !v.h.Schedule.Store.Grace
		v.dataLost = true
		v.losses = append(v.losses, at)
		v.dataLosses = append(v.dataLosses, act{e, at})
	case Restarted:
		v.losses = append(v.losses, at)
	case Cleared:
		v.clear = at
	case SessionLost:
		v.sessionsLost[e.Client] = append(v.sessionsLost[e.Client], at)
		v.sessionsOver[e.Session] = at
	case SessionClosed:
		v.sessionsOver[e.Session] = at
	case LeaseLost:
		v.leasesLost[leaseID{e.Client, e.Name, e.Token}] = at
	case HandedOff:
		v.handoffs[leaseID{e.Client, e.Name, e.Token}] = at
	case Suspended:
		v.suspends[e.Client] = append(v.suspends[e.Client], pause{at, unmet})
	case Resumed:
		v.suspends[e.Client][len(v.suspends[e.Client])-1].to = at
	case Broke, Limited:
		v.acts[e.Name] = append(v.acts[e.Name], act{e, at})
	}
}

// sane reports whether two holders must not overlap in time in this history.
func (v *view) sane() bool { return v.clockSane && !v.lostGrants }

// untouched reports whether nothing but the store itself was ever in the way of
// the client: no fault struck it, and it was neither killed nor suspended.
func (v *view) untouched(client int) bool {
	_, dead := v.killed[client]
	return !dead && len(v.suspends[client]) == 0 && (client >= len(v.h.Struck) || v.h.Struck[client] == 0)
}

// suspendTick is how long after a resume a holder may not know that its lease has
// ended: the client compares its clock that often.
const suspendTick = 500 * time.Millisecond

// dazed returns until when the client may not know that a lease has ended,
// because its machine is suspended at that time or was just before. A suspend that
// begins before the client compared its clock after the last one goes on from there.
func (v *view) dazed(client int, at time.Duration) (until time.Duration, is bool) {
	for _, p := range v.suspends[client] {
		end := unmet.at
		if p.to != unmet {
			end = p.to.at + suspendTick + time.Millisecond
		}
		if is && p.from.at <= until || p.from.at <= at && at <= end {
			until, is = end, true
		}
	}
	return until, is
}

// holds reports whether a, by its own knowledge, is a holder at the place s:
// it got its lease before, and neither gave it back nor was notified of its end.
// The end of a context is recorded by a separate goroutine, so for that end the time
// counts and not the order.
func (a *acq) holds(s stamp) bool {
	return a.ok && a.returned.n < s.n && s.n < a.unlock.n && s.n < a.dead.n && s.at < a.lost.at
}

// shared reports whether a is a reader at the place s. While a downgrade is under
// way it must take itself for one, and others may.
func (a *acq) shared(s stamp) bool { return a.call.Mode == driver.Shared || a.downing.n <= s.n }

// related reports whether two acquisitions are of one id, and so may hold together.
func related(a, b *acq) bool { return a.call.Reentry != "" && a.call.Reentry == b.call.Reentry }

// brokenBefore reports whether an operator broke any grant of the name before s.
func (v *view) brokenBefore(name string, s stamp) bool {
	return slices.ContainsFunc(v.acts[name], func(x act) bool { return x.Kind == Broke && x.n < s.n })
}

// anyBrokenBefore reports whether the operator broke a grant of any name before s.
func (v *view) anyBrokenBefore(s stamp) bool {
	for name := range v.acts {
		if v.brokenBefore(name, s) {
			return true
		}
	}
	return false
}

// waits reports whether a waits for the lock at the place s. An acquisition of a LockAll
// does not count: it may still wait for another name.
func (a *acq) waits(s stamp) bool {
	return !a.call.Try && !a.call.All && a.called.n <= s.n && s.n < a.returned.n && s.n < a.dead.n
}

// sortBy sorts by a number.
func sortBy[E any](list []E, by func(E) int) {
	slices.SortStableFunc(list, func(a, b E) int { return cmp.Compare(by(a), by(b)) })
}
