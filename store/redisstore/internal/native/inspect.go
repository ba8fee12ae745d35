// SPDX-License-Identifier: Apache-2.0

package native

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// Inspect implements driver.Store.
func (s *Store) Inspect(ctx context.Context, name string) (st driver.Status, err error) {
	err = s.operate(ctx, func(set layout) error {
		all, err := s.inspect(ctx, set, set.shard(name), []string{name})
		if err == nil {
			st = all[0]
		}
		return err
	})
	if errors.Is(err, errVacant) {
		return driver.Status{Name: name}, nil
	}
	return st, err
}

// inspect asks for names of one shard. A call shows some hundred claims at most: to show thousands would block the server.
func (s *Store) inspect(ctx context.Context, set layout, shard string, names []string) (all []driver.Status, err error) {
	for rest := names; len(rest) > 0; rest = names[len(all):] {
		reply, err := s.callWith(ctx, set, inspectScript, shard, rest, "0", append([]string{strconv.Itoa(driver.MaxWaitersReported)}, rest...)...)
		if err != nil {
			return nil, err
		}
		some, cursors, err := statuses(reply, rest)
		if err != nil {
			return nil, err
		}
		for i, cursor := range cursors {
			if cursor != "0" {
				if err := s.moreHolders(ctx, set, shard, &some[i], cursor); err != nil {
					return nil, err
				}
			}
		}
		all = append(all, some...)
	}
	return all, nil
}

// moreHolders reads further holders of a lock with many, up to driver.MaxHoldersInspected. MoreHolders is how many are not shown.
func (s *Store) moreHolders(ctx context.Context, set layout, shard string, st *driver.Status, cursor string) error {
	total := len(st.Holders) + st.MoreHolders
	for cursor != "0" && len(st.Holders) < driver.MaxHoldersInspected {
		reply, err := s.callWith(ctx, set, holdersScript, shard, []string{st.Name}, "0", st.Name, cursor)
		if err != nil {
			return err
		}
		r := rediscmd.Reader{Rest: reply[1:]}
		cursor = r.Text()
		for _, h := range r.List() {
			st.Holders = append(st.Holders, rediscmd.HolderOf(h))
		}
		if err := r.Err(); err != nil {
			return err
		}
	}
	// A server may show a holder twice.
	order := func(a, b driver.Holder) int {
		return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(string(a.Claim.Session[:]), string(b.Claim.Session[:])), cmp.Compare(a.Claim.Seq, b.Claim.Seq))
	}
	slices.SortFunc(st.Holders, order)
	st.Holders = slices.CompactFunc(st.Holders, func(a, b driver.Holder) bool { return order(a, b) == 0 })
	st.MoreHolders = 0
	if cursor != "0" {
		st.MoreHolders = max(0, total-len(st.Holders))
	}
	return nil
}

// statuses reads what inspect.lua answered about the first of some names, and for each the cursor of holders that it did not show.
func statuses(reply []any, names []string) (all []driver.Status, cursors []string, err error) {
	r := rediscmd.Reader{Rest: reply[1:]}
	grace, done := r.Millis(), int(r.Number())
	if r.Err() == nil && (done < 1 || done > len(names)) {
		return nil, nil, fmt.Errorf("redisstore: inspect answered about %d of %d locks: %w", done, len(names), rediscmd.ErrShort)
	}
	for _, name := range names[:max(0, min(done, len(names)))] {
		st := driver.Status{Name: name, Grace: grace}
		for _, h := range r.List() {
			st.Holders = append(st.Holders, rediscmd.HolderOf(h))
		}
		total := int(r.Number())
		cursor := r.Text()
		if cursor != "0" {
			st.MoreHolders = max(0, total-len(st.Holders))
		}
		for _, w := range r.List() {
			st.Waiters = append(st.Waiters, rediscmd.WaiterOf(w))
		}
		st.Waiting, st.Limit = int(r.Number()), r.Number()
		all, cursors = append(all, st), append(cursors, cursor)
	}
	return all, cursors, r.Err()
}

// Break implements driver.Store. Of a lock with many grants each call checks some, so that no call blocks the server.
func (s *Store) Break(ctx context.Context, name string, token driver.Token) (fence driver.Token, err error) {
	err = s.operate(ctx, func(set layout) error {
		for cursor := ""; cursor != "0"; {
			reply, err := s.callWith(ctx, set, breakScript, set.shard(name), []string{name}, "0", name, counter(token), cmp.Or(cursor, "0"))
			if err != nil {
				return err
			}
			r := rediscmd.Reader{Rest: reply[1:]}
			fence = max(fence, r.Token())
			cursor = r.Text()
			if err := r.Err(); err != nil {
				return err
			}
			s.walk(ctx, set, name, reply)
		}
		if fence == 0 {
			return fmt.Errorf("redisstore: %w", driver.ErrNotHeld)
		}
		return nil
	})
	if errors.Is(err, errVacant) {
		err = fmt.Errorf("redisstore: %w", driver.ErrNotHeld)
	}
	return fence, err
}

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
