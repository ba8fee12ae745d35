// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"context"
	"fmt"
	"strings"

	"github.com/fencelock/fencelock/driver"
)

// List implements driver.Store: the members' listings one after the other, by
// member. A lock that is kept where its name is not looked for is left out; see
// Strays. While a list changes, a lock is looked for at both of its members.
func (s *Store) List(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	name, inner, _ := strings.Cut(q.Cursor, "/")
	// The cursor names the member and not its number: a listing that goes on
	// over a change of the list must not begin again or leave a member out.
	i := 0
	for i < len(s.members) && s.members[i].Name < name {
		i++
	}
	if i == len(s.members) {
		return driver.Page{}, nil
	}
	m := &s.members[i]
	if m.Name != name {
		inner = "" // the member of the cursor is gone
	}
	page, err := m.Store.List(ctx, driver.ListQuery{Prefix: q.Prefix, Cursor: inner, Max: q.Max})
	if err != nil {
		return driver.Page{}, err
	}
	kept := page.Locks[:0]
	for _, st := range page.Locks {
		if !strings.HasPrefix(st.Name, reserved) && s.place(st.Name).has(m) {
			kept = append(kept, st)
		}
	}
	page.Locks = kept
	switch {
	case page.Next != "":
		page.Next = m.Name + "/" + page.Next
	case i+1 < len(s.members):
		page.Next = s.members[i+1].Name + "/"
	}
	return page, nil
}

// Stray is a lock that a member keeps although this list of members, after a change
// if one is under way, looks for it elsewhere.
type Stray struct {
	// Member is the name of the member that keeps it.
	Member string
	// Status is the lock as that member sees it.
	Status driver.Status
}

// Strays returns the locks that are held, kept or waited for at a member where
// no client will look for them after the change: those that processes with the earlier
// list still hold, and what was left behind. It reads every lock of every member, and
// fails if a member cannot list.
func (s *Store) Strays(ctx context.Context) ([]Stray, error) {
	var found []Stray
	for i := range s.members {
		m := &s.members[i]
		if !m.Store.Caps().Listing {
			return nil, fmt.Errorf("shard: member %q cannot list its locks: %w", m.Name, driver.ErrUnsupported)
		}
		q := driver.ListQuery{Max: straysPerPage}
		for {
			page, err := m.Store.List(ctx, q)
			if err != nil {
				return nil, fmt.Errorf("shard: member %q: %w", m.Name, err)
			}
			for _, st := range page.Locks {
				if !strings.HasPrefix(st.Name, reserved) && s.place(st.Name).to != m {
					found = append(found, Stray{Member: m.Name, Status: st})
				}
			}
			q.Cursor = page.Next
			if q.Cursor == "" {
				break
			}
		}
	}
	return found, nil
}

const straysPerPage = 1000
