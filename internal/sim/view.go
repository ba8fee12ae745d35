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
	told     stamp // unmet if its context never ended
	lost     stamp // the same, unmet also if that was by its unlock
	cause    error
	unlock   stamp // called
	unlocked stamp // returned
	freed    bool  // the unlock was confirmed
	unlError error
	dead     stamp // its process died
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
	// tokensSane: the clock did not go back before a loss of memory, after which
	// it seeds the tokens.
	tokensSane bool
	wentBack   bool
	// forgetful: the store lost grants without a grace that protects them.
	forgetful bool
	// losses are the places where a new incarnation began.
	losses []stamp
}

// look puts the events of a history together.
func look(h *History) *view {
	v := &view{h: h, names: map[string][]*acq{}, killed: map[int]stamp{}, closed: map[int]stamp{},
		clear: unmet, clockSane: true, tokensSane: true}
	byID := map[int]*acq{}
	for n, e := range h.Events {
		at := stamp{n, e.At}
		switch a := byID[e.Acq]; {
		case e.Kind == Called:
			a = &acq{call: e, called: at, returned: unmet, told: unmet, lost: unmet, unlock: unmet, unlocked: unmet, dead: unmet}
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
	}
	return v
}

func (a *acq) take(e Event, at stamp) {
	switch e.Kind {
	case Returned:
		a.returned, a.ok, a.token, a.err = at, e.OK, e.Token, e.Err
	case Told:
		a.told, a.cause = at, e.Err
		if !errors.Is(e.Err, fencelock.ErrReleased) {
			a.lost = at
		}
	case Unlocking:
		a.unlock = at
	case Unlocked:
		a.unlocked, a.freed, a.unlError = at, e.OK, e.Err
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
	case Forgot, Restored:
		v.tokensSane = v.tokensSane && !v.wentBack
		v.forgetful = v.forgetful || !v.h.Schedule.Store.Grace
		v.losses = append(v.losses, at)
	case Restarted:
		v.losses = append(v.losses, at)
	case Cleared:
		v.clear = at
	}
}

// sane says whether two holders must not overlap in time in this history.
func (v *view) sane() bool { return v.clockSane && !v.forgetful }

// untouched says whether nothing but the store itself was ever in the way of
// the client: no fault struck it and it was not killed.
func (v *view) untouched(client int) bool {
	_, dead := v.killed[client]
	return !dead && (client >= len(v.h.Struck) || v.h.Struck[client] == 0)
}

// holds says whether a, by its own knowledge, is a holder at the place s:
// it got its lease before, and neither gave it back nor was told of its end.
// The end of a context is written down by a goroutine of its own, so for that
// the time counts and not the order.
func (a *acq) holds(s stamp) bool {
	return a.ok && a.returned.n < s.n && s.n < a.unlock.n && s.n < a.dead.n && s.at < a.lost.at
}

// waits says whether a waits for its turn at the place s.
func (a *acq) waits(s stamp) bool {
	return !a.call.Try && a.called.n <= s.n && s.n < a.returned.n && s.n < a.dead.n
}

// sortBy sorts by a number.
func sortBy[E any](list []E, by func(E) int) {
	slices.SortStableFunc(list, func(a, b E) int { return cmp.Compare(by(a), by(b)) })
}
