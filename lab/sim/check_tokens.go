// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"

	"github.com/fencelock/fencelock/driver"
)

// checkTokens: no two acquisitions have the same token, and one that was called
// after another had returned has the higher one, unless both are shared. Of
// those, one may be given a grant that its client got before it asked, and the
// order means nothing, because no exclusive one can be between them. Re-entries
// have their lease's. Where two may hold at once, because the store lost a
// grant, its clock jumped or an operator broke it, a holder that does not know may
// still hand its lease over inside its client, and a re-entry may join a grant that
// older data brought back; the token, lower then, shows it. An acquisition may also
// find a grant of its client that a restore without a grace period brought back, if the
// higher token had been returned before the restore.
func checkTokens(v *view, bad complain) {
	if !v.tokensSane {
		return
	}
	type key struct {
		name  string
		token driver.Token
	}
	seen := map[key]*acq{}
	highest := map[string]*acq{} // of those that returned so far
	alone := map[string]*acq{}   // the same, shared ones left out
	before := map[int]*acq{}     // the highest when it was called
	byID := map[int]*acq{}
	for _, a := range v.acqs {
		byID[a.call.Acq] = a
	}
	for _, e := range v.h.Events {
		a := byID[e.Acq]
		switch {
		case a == nil:
		case e.Kind == Called:
			before[e.Acq] = highest[e.Name]
			if a.call.Mode == driver.Shared {
				before[e.Acq] = alone[e.Name]
			}
		case e.Kind == Reentered && e.OK && e.Token != a.token:
			bad([]*acq{a}, "#%d has token %d, its re-entry %d", e.Acq, a.token, e.Token)
		case e.Kind == Returned && e.OK:
			k := key{a.call.Name, e.Token}
			if o := seen[k]; o != nil && !related(o, a) {
				bad([]*acq{o, a}, "#%d and #%d of %s have the same token %d", o.call.Acq, e.Acq, k.name, e.Token)
			}
			seen[k] = a
			if o := before[e.Acq]; o != nil && o.token >= e.Token && !v.mayFall(a, o) {
				bad([]*acq{o, a}, "#%d of %s was called after #%d had returned with token %d, and got %d",
					e.Acq, k.name, o.call.Acq, o.token, e.Token)
			}
			if o := highest[k.name]; o == nil || o.token < e.Token {
				highest[k.name] = a
			}
			if o := alone[k.name]; a.call.Mode == driver.Exclusive && (o == nil || o.token < e.Token) {
				alone[k.name] = a
			}
			if e.Token <= 0 {
				bad([]*acq{a}, "#%d has token %d", e.Acq, e.Token)
			}
		}
	}
}

// mayFall reports whether a, called after o had returned, may have a token that is
// not above that one.
func (v *view) mayFall(a, o *acq) bool {
	passed := a.token != a.token.Base() || a.call.Reentry != ""
	return passed && (!v.sane() || a.broken.n < a.returned.n) || a.token == o.token && related(a, o) || v.broughtBack(a, o)
}

// broughtBack reports whether a has a grant that its client was given before the
// grant of o, and that is in the older data to which the store was restored without
// a grace period, after o had returned. The claim of that grant was attempted before
// the restore for an earlier waiter of the client or for a itself; the next attempt
// finds the grant.
func (v *view) broughtBack(a, o *acq) bool {
	return !v.h.Schedule.Store.Grace && a.token < o.token && slices.ContainsFunc(v.dataLosses, func(loss act) bool {
		return o.returned.n < loss.n && loss.n < a.returned.n &&
			slices.Contains(loss.Back, leaseID{a.call.Client, a.call.Name, a.token})
	})
}
