// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"slices"
	"time"

	"github.com/fencelock/fencelock"
)

// Order is which locks of a list come first.
type Order string

// The orders.
const (
	// Contended: with the most waiters, then the longest wait.
	Contended Order = "contended"
	// OldestFirst: held for the longest time.
	OldestFirst Order = "oldest"
	// Ending: those that end next unless they are renewed.
	Ending Order = "ending"
	// ByName: alphabetically.
	ByName Order = "name"
)

// Orders are all of them; the first is the default.
var Orders = []Order{Contended, OldestFirst, Ending, ByName}

// Sort sorts locks in an order. Locks that are equal in it come by name. Times are
// compared roughly: locks are listed one after the other, and small differences would let
// them change places at every poll.
func Sort(locks []fencelock.Status, order Order) {
	slices.SortFunc(locks, func(a, b fencelock.Status) int {
		var c int
		switch order {
		case ByName:
		case OldestFirst:
			c = cmp.Compare(Oldest(&b)/time.Second, Oldest(&a)/time.Second)
		case Ending:
			c = cmp.Compare(EndsNext(&a)/time.Second, EndsNext(&b)/time.Second)
		default:
			c = cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(Waited(&b)/time.Second, Waited(&a)/time.Second), cmp.Compare(Oldest(&b)/time.Minute, Oldest(&a)/time.Minute))
		}
		return cmp.Or(c, cmp.Compare(a.Name, b.Name))
	})
}
