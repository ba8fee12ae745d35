// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"

	"github.com/fencelock/fencelock/driver"
)

// checkOverlap: at the moment a lease is had, nobody else who has one that does
// not go with it may still believe so. A holder believes it until it unlocks,
// or its context ends, or its process dies. It holds unless the store's clock
// jumped ahead or the store forgot grants without grace.
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
				if h.call.Mode == driver.Exclusive || a.call.Mode == driver.Exclusive {
					bad([]*acq{h, a}, "#%d got %s at %v while #%d still held it (tokens %d, %d)",
						a.call.Acq, a.call.Name, a.returned.at, h.call.Acq, a.token, h.token)
				}
			}
			holding = append(holding, a)
			if a.call.Limit > 0 && weight > a.call.Limit {
				bad(holding, "#%d brought the weight on %s to %d of %d at %v",
					a.call.Acq, a.call.Name, weight, a.call.Limit, a.returned.at)
			}
		}
	}
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
