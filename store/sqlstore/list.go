// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/sqlstore/internal/lockrow"
)

// List implements driver.Store. The cursor is the last name that was read: a page is a
// range of the primary key, so a lock that is added or removed between two pages does not
// shift the others.
func (s *Store) List(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	if err := s.check(q.Prefix); err != nil {
		return driver.Page{}, err
	}
	if err := s.prepare(ctx); err != nil {
		return driver.Page{}, err
	}
	m, err := s.incarnation(ctx, false)
	if errors.Is(err, errVacant) {
		return driver.Page{}, nil
	}
	if err != nil {
		return driver.Page{}, err
	}
	statement, start := "from", q.Prefix
	if q.Cursor != "" {
		statement, start = "after", q.Cursor
	}
	n := min(max(q.Max, 100), 1000)
	rows, err := s.locks(ctx, statement, start, n)
	if err != nil {
		return driver.Page{}, err
	}
	states, err := s.states(ctx, m, rows)
	if err != nil {
		return driver.Page{}, err
	}
	var page driver.Page
	for i, l := range rows {
		if !strings.HasPrefix(l.name, q.Prefix) {
			page.Next = "" // names are in the order of their bytes: there are no more
			return page, nil
		}
		if len(page.Locks) == q.Max {
			return page, nil
		}
		page.Next = l.name
		if states[i] == nil {
			continue
		}
		st, err := s.shown(ctx, l.name, states[i])
		if err != nil {
			return driver.Page{}, err
		}
		if len(st.Holders) > 0 || st.Waiting > 0 {
			page.Locks = append(page.Locks, st)
		}
	}
	if len(rows) < n {
		page.Next = ""
	}
	return page, nil
}

// states reads the sessions of many locks in one go. A free lock has none.
func (s *Store) states(ctx context.Context, m incarnation, rows []listed) ([]*lockrow.State, error) {
	states := make([]*lockrow.State, len(rows))
	sessions := map[string]lockrow.Session{}
	seen := map[string]bool{}
	var ids []string
	for i, l := range rows {
		if l.free() {
			continue
		}
		lock, err := lockrow.Decode(l.fields.row())
		if err != nil {
			return nil, fmt.Errorf("sqlstore: %q: %w", l.name, err)
		}
		for _, id := range lock.Sessions() {
			if !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
		states[i] = &lockrow.State{Lock: lock, Now: l.now, Inc: m.inc, GraceEnd: m.graceEnd, Floor: m.floor, Sessions: sessions}
	}
	return states, s.sessions(ctx, ids, sessions)
}

// shown is the status of a lock. If a claim can be granted it is written first: what
// is shown as granted is.
func (s *Store) shown(ctx context.Context, name string, b *lockrow.State) (driver.Status, error) {
	if b.Refresh(); len(b.Pushes) > 0 {
		return s.Inspect(ctx, name)
	}
	return b.Status(name), nil
}
