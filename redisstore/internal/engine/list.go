// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/fencelock/fencelock/driver"
)

// List implements driver.Store. HSCAN may show a field twice and in no order, so
// pages are cut from the sorted names of a bucket; the cursor is the bucket and the
// last name shown.
func (s *Store) List(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	first, _, _ := strings.Cut(q.Cursor, " ")
	from, _ := strconv.Atoi(first)
	var page driver.Page
	for b := from; b < s.opts.Buckets; b++ {
		shard, cursor := strconv.Itoa(b), ""
		if b == from {
			cursor = q.Cursor
		}
		names, err := s.rest(ctx, shard, q.Prefix, cursor)
		if err != nil {
			return driver.Page{}, err
		}
		for part := range slices.Chunk(names, maxInspected) {
			locks, err := s.inspect(ctx, shard, part)
			if err != nil {
				return driver.Page{}, err
			}
			for _, st := range locks {
				if len(st.Holders) == 0 && st.Waiting == 0 {
					continue
				}
				if len(page.Locks) == q.Max {
					s.listings.put(q.Prefix, page.Next, names)
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
func (s *Store) rest(ctx context.Context, shard, prefix, cursor string) ([]string, error) {
	names, kept := s.listings.take(prefix, cursor)
	if !kept {
		var err error
		if names, err = s.names(ctx, shard, prefix); err != nil {
			return nil, err
		}
	}
	if _, after, ok := strings.Cut(cursor, " "); ok {
		names = names[sort.Search(len(names), func(i int) bool { return names[i] > after }):]
	}
	return names, nil
}

// maxInspected is how many locks one call looks at.
const maxInspected = 50

// names returns the names that have grants or claims in line, sorted.
func (s *Store) names(ctx context.Context, shard, prefix string) ([]string, error) {
	var names []string
	for cursor := uint64(0); ; {
		// A lock has grants (l) or a line (q).
		fields, next, err := s.client.Fields(ctx, s.bucket(shard), cursor, "[lq]"+escape(prefix)+"*")
		if err != nil {
			return nil, err
		}
		for _, f := range fields {
			names = append(names, f[1:])
		}
		if cursor = next; cursor == 0 {
			slices.Sort(names)
			return slices.Compact(names), nil
		}
	}
}

// escape makes a prefix literal in a glob pattern.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
