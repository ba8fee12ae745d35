// SPDX-License-Identifier: Apache-2.0

package view

import (
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
