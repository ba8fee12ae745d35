// SPDX-License-Identifier: Apache-2.0

package driver

import "slices"

// Grant is what the admission rule needs to know about a grant of a lock.
type Grant struct {
	// Mode is that of the claim. A claim that was downgraded is Shared.
	Mode Mode
	// Weight is that of the claim, at least 1.
	Weight int64
	// Reentry is that of the claim.
	Reentry string
	// Kept is set when the claim is gone and the lock stays taken for a while
	// (MinHold, KeepFor). No claim joins such a grant.
	Kept bool
}

// Fits reports whether a claim with the terms t can be granted beside grants. stored
// is the limit that SetLimit stored for the name, or 0.
//
// Fits knows nothing of the queue. A new claim that fits must wait anyway while others
// wait before it, unless it joins a grant (see Joins); otherwise neither an exclusive
// nor a heavy claim would ever be granted.
func Fits(grants []Grant, t *Terms, stored int64) bool {
	if t.Mode == Exclusive {
		return len(grants) == 0 || Joins(grants, t)
	}
	if slices.ContainsFunc(grants, Grant.exclusive) {
		return false
	}
	if t.Limit == 0 {
		return true
	}
	limit := t.Limit
	if stored > 0 {
		limit = stored
	}
	// A claim heavier than a lowered limit takes all of it. It would otherwise
	// never fit, and block every claim behind it.
	used := min(t.Weight, limit)
	for _, g := range grants {
		used += min(g.Weight, limit)
	}
	return used <= limit
}

// Joins reports whether a claim with the terms t re-enters the lock: it is exclusive,
// and every grant has its Reentry and a holder. It then shares their token, and does
// not wait for the claims in the queue, because these wait for its own holder.
func Joins(grants []Grant, t *Terms) bool {
	if t.Mode != Exclusive || t.Reentry == "" || !slices.ContainsFunc(grants, Grant.exclusive) {
		return false
	}
	return !slices.ContainsFunc(grants, func(g Grant) bool { return g.Kept || g.Reentry != t.Reentry })
}

func (g Grant) exclusive() bool { return g.Mode == Exclusive }
