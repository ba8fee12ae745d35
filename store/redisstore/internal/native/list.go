// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/fencelock/fencelock/driver"
)

// List implements driver.Store. SCAN may show a key twice and in no order, so
// pages are cut from the sorted names of a bucket; the cursor is the bucket and the
// last name shown.
func (s *Store) List(ctx context.Context, q driver.ListQuery) (page driver.Page, err error) {
	err = s.operate(ctx, func(set layout) error {
		if _, err := s.callWith(ctx, set, inspectScript, firstShard, nil, "0", "0"); err != nil && !errors.Is(err, errVacant) {
			return err
		}
		page, err = s.list(ctx, set, q)
		return err
	})
	return page, err
}

// list is List with the layout of the namespace.
func (s *Store) list(ctx context.Context, set layout, q driver.ListQuery) (driver.Page, error) {
	first, _, _ := strings.Cut(q.Cursor, " ")
	from, _ := strconv.Atoi(first)
	var page driver.Page
	for b := from; b < set.buckets; b++ {
		shard, cursor := strconv.Itoa(b), ""
		if b == from {
			cursor = q.Cursor
		}
		names, err := s.rest(ctx, s.buckets.key(shard, set.buckets), q.Prefix, cursor)
		if err != nil {
			return driver.Page{}, err
		}
		for part := range slices.Chunk(names, maxInspected) {
			locks, err := s.inspect(ctx, set, shard, part)
			if errors.Is(err, errVacant) {
				break // it lost its data between the two calls
			}
			if err != nil {
				return driver.Page{}, err
			}
			for _, st := range locks {
				if len(st.Holders) == 0 && st.Waiting == 0 {
					continue
				}
				if len(page.Locks) == q.Max {
					s.listings.Put(q.Prefix, page.Next, names)
					return page, nil
				}
				page.Locks = append(page.Locks, st)
				page.Next = shard + " " + st.Name
			}
		}
	}
	page.Next = ""
	return page, nil
}

// rest returns the names of a bucket that come after a cursor, which is empty at its
// beginning.
func (s *Store) rest(ctx context.Context, base, prefix, cursor string) ([]string, error) {
	names, kept := s.listings.Take(prefix, cursor)
	if !kept {
		var err error
		if names, err = s.names(ctx, base, prefix); err != nil {
			return nil, err
		}
	}
	if _, after, ok := strings.Cut(cursor, " "); ok {
		names = names[sort.Search(len(names), func(i int) bool { return names[i] > after }):]
	}
	return names, nil
}

// maxInspected is how many locks one call reads.
const maxInspected = 50

// scanned is how many keys one call reads.
const scanned = "1000"

// names returns the names that have a list, sorted.
func (s *Store) names(ctx context.Context, base, prefix string) ([]string, error) {
	var names []string
	for cursor := uint64(0); ; {
		part, next, err := s.scan(ctx, base, cursor, prefix)
		if err != nil {
			return nil, err
		}
		names, cursor = append(names, part...), next
		if cursor == 0 {
			slices.Sort(names)
			return slices.Compact(names), nil
		}
	}
}

// escape makes a prefix literal in a glob pattern.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
