// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/fencelock/fencelock/driver"
)

// List implements driver.Store. HSCAN may show a field twice and in no order, so
// a page is cut from the sorted names of a bucket; the cursor is the bucket and
// the last name shown.
func (s *Store) List(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	first, after, _ := strings.Cut(q.Cursor, " ")
	from, _ := strconv.Atoi(first)
	var page driver.Page
	for b := from; b < s.opts.Buckets; b++ {
		names, err := s.names(ctx, strconv.Itoa(b), q.Prefix)
		if err != nil {
			return driver.Page{}, err
		}
		for _, name := range names {
			if b == from && after != "" && name <= after {
				continue
			}
			if len(page.Locks) == q.Max {
				return page, nil
			}
			st, err := s.Inspect(ctx, name)
			if err != nil {
				return driver.Page{}, err
			}
			if len(st.Holders) > 0 || st.Waiting > 0 {
				page.Locks = append(page.Locks, st)
				page.Next = strconv.Itoa(b) + " " + name
			}
		}
	}
	page.Next = ""
	return page, nil
}

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
