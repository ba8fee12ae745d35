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
// Strays.
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
		if s.owner(st.Name) == m {
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

// Stray is a lock that a member keeps although this list of members, or the next
// one, looks for it elsewhere.
type Stray struct {
	// Member is the name of the member that keeps it.
	Member string
	// Status is the lock as that member sees it.
	Status driver.Status
}

// Strays returns the locks that are held, kept or waited for at a member where
// no client will look for them there: the name belongs to another member, or the member is
// Moving. While there are some, it is too early for the next step of a change of
// the list (docs/shard.md). An empty answer proves nothing about processes that run
// with another list and have not locked anything yet. It reads every lock of
// every member, and fails if a member cannot list.
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
				return nil, fmt.Errorf("shard: member %q: %w", m.Name, driver.Inner(err))
			}
			for _, st := range page.Locks {
				if m.Moving || s.owner(st.Name) != m {
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
