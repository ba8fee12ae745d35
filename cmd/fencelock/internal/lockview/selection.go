// SPDX-License-Identifier: Apache-2.0

package lockview

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
)

// Selection is which locks of a listing to show. The zero Selection is all.
type Selection struct {
	Prefix    string
	Owner     string // a part of the owner of a holder or waiter
	Text      string // a part of the name, or of the owner or reason of a holder or waiter, in any case
	OlderThan time.Duration
	Waited    bool // only those with waiters
}

// Read returns the locks of a store that are wanted, by name.
func (s *Selection) Read(ctx context.Context, c *fencelock.Client) ([]fencelock.Status, error) {
	var locks []fencelock.Status
	for st, err := range c.List(ctx, s.Prefix) {
		if err != nil {
			return nil, err
		}
		if s.Wants(&st) {
			locks = append(locks, st)
		}
	}
	slices.SortFunc(locks, func(a, b fencelock.Status) int { return strings.Compare(a.Name, b.Name) })
	return locks, nil
}

// Wants reports whether a lock is selected.
func (s *Selection) Wants(st *fencelock.Status) bool {
	if s.Waited && st.Waiting == 0 || s.OlderThan > 0 && Oldest(st) <= s.OlderThan || !strings.HasPrefix(st.Name, s.Prefix) {
		return false
	}
	if s.Owner != "" && !anyRecord(st, func(r *fencelock.Record) bool { return strings.Contains(r.Owner, s.Owner) }) {
		return false
	}
	return s.Text == "" || contains(st.Name, s.Text) ||
		anyRecord(st, func(r *fencelock.Record) bool { return contains(r.Owner, s.Text) || contains(r.Reason, s.Text) })
}

// anyRecord reports whether the record of a holder or waiter is as wanted.
func anyRecord(st *fencelock.Status, wanted func(*fencelock.Record) bool) bool {
	return slices.ContainsFunc(st.Holders, func(h fencelock.Holder) bool { return wanted(&h.Record) }) ||
		slices.ContainsFunc(st.Waiters, func(w fencelock.Waiter) bool { return wanted(&w.Record) })
}

func contains(text, part string) bool {
	return strings.Contains(text, part) || strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

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
