// SPDX-License-Identifier: Apache-2.0

package view

import (
	"slices"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// Renewals finds holders that do not renew, by comparing polls.
type Renewals struct {
	// most is how far away the end of each grant has been: about its TTL.
	most map[driver.ClaimID]time.Duration
}

// Note takes the result of a poll. It keeps nothing of grants that are gone.
func (r *Renewals) Note(locks []fencelock.Status) {
	most := map[driver.ClaimID]time.Duration{}
	for i := range locks {
		for _, h := range locks[i].Holders {
			most[h.Claim] = max(r.most[h.Claim], h.EndsIn)
		}
	}
	r.most = most
}

// Troubled reports whether a holder has not renewed for half of its TTL: one that
// lives does so after a third.
func (r *Renewals) Troubled(st *fencelock.Status) bool {
	return slices.ContainsFunc(st.Holders, func(h fencelock.Holder) bool { return !h.Kept && h.EndsIn < r.most[h.Claim]/2 })
}
