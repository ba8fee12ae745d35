// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"slices"
)

// checkOverlap: at the moment a lease is had, no other client that has one that does
// not go with it may still believe so. A holder believes it until it unlocks,
// or its context ends, or its process dies. It holds unless the store's clock
// jumped ahead or the store lost grants without grace; and not for a lease that
// an operator broke: its holder is notified with the next renewal only.
func checkOverlap(v *view, bad complain) {
	if !v.sane() {
		return
	}
	for _, acqs := range v.names {
		var holding []*acq
		for _, a := range byReturn(acqs) {
			if a.dead.n < a.returned.n || a.lost.at <= a.returned.at {
				continue // it never knew that it held anything, or no longer did
			}
			holding = slices.DeleteFunc(holding, func(h *acq) bool { return !h.holds(a.returned) })
			weight := a.call.Weight
			for _, h := range holding {
				weight += h.call.Weight
				if !v.mayOverlap(h, a) {
					bad([]*acq{h, a}, "#%d got %s at %v while #%d still held it (tokens %d, %d)",
						a.call.Acq, a.call.Name, a.returned.at, h.call.Acq, a.token, h.token)
				}
			}
			holding = append(holding, a)
			if a.call.Limit > 0 && v.tokensSane && !v.fits(holding, a) {
				bad(holding, "#%d brought the weight on %s to %d of %d at %v",
					a.call.Acq, a.call.Name, weight, a.call.Limit, a.returned.at)
			}
		}
	}
}

// mayOverlap reports whether h may hold when a is held. If the machine of h is
// suspended, h must know soon after it goes on.
func (v *view) mayOverlap(h, a *acq) bool {
	if h.shared(a.returned) && a.shared(a.returned) || related(h, a) || min(h.broken.n, a.broken.n) < a.returned.n {
		return true
	}
	until, dazed := v.dazed(h.call.Client, a.returned.at)
	later := stamp{v.placeOf(until) + 1, until}
	return dazed && !(h.holds(later) && a.holds(later))
}

// fits reports whether the weight of all is within a limit that may have held when
// the last of them, by its token, was granted: after its claim was attempted. A claim
// heavier than the limit takes all of it. Broken ones do not count, nor those whose
// machine is suspended.
func (v *view) fits(holding []*acq, a *acq) bool {
	last := slices.MaxFunc(holding, func(a, b *acq) int { return cmp.Compare(a.token, b.token) })
	for _, limit := range v.limits(a.call, v.attempted(last), a.returned) {
		weight := int64(0)
		for _, h := range holding {
			if _, dazed := v.dazed(h.call.Client, a.returned.at); h.broken.n > a.returned.n && !(dazed && h != a) {
				weight += min(h.call.Weight, limit)
			}
		}
		if weight <= limit {
			return true
		}
	}
	return false
}

// attempted returns the place where the claim of a was attempted first. It may be before
// the call of a: a waiter that gives up leaves its claim, which the store may have granted,
// to the next waiter of its client.
func (v *view) attempted(a *acq) stamp {
	for _, c := range v.h.Claims {
		if base := a.token.Base(); c.Name == a.call.Name && (c.Token == base || c.Again == base) {
			return stamp{n: c.Position}
		}
	}
	return a.called
}

// limits returns the limits that may have held for a call from one place to
// another. A data loss may bring any earlier one back.
func (v *view) limits(call Event, from, to stamp) []int64 {
	all := []int64{call.Limit}
	for _, x := range v.acts[call.Name] {
		if x.Kind != Limited || x.n > to.n {
			continue
		}
		limit := x.Limit
		if limit == 0 {
			limit = call.Limit
		}
		if x.n < from.n && len(v.losses) == 0 {
			all = all[:0] // it replaced those before
		}
		all = append(all, limit)
	}
	return all
}

// byReturn returns the acquisitions that succeeded, in the order in which they
// returned.
func byReturn(acqs []*acq) []*acq {
	var got []*acq
	for _, a := range acqs {
		if a.ok {
			got = append(got, a)
		}
	}
	sortBy(got, func(a *acq) int { return a.returned.n })
	return got
}
