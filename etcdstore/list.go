// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"slices"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/etcdstore/internal/lock"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// List implements driver.Store. The cursor is the last name shown, as it stands in
// keys. A page reads as many keys as it shows locks, and starts where the one
// before ended; nothing is scanned.
func (s *Store) List(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	page, err := s.list(ctx, q)
	if err != nil {
		return driver.Page{}, fail(ctx, "list", err, reading)
	}
	return page, nil
}

func (s *Store) list(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	from := lock.Escape(q.Prefix)
	part := func(all string) clientv3.Op {
		start := all + from
		if q.Cursor != "" {
			start = lock.End(all + q.Cursor)
		}
		return clientv3.OpGet(start, clientv3.WithRange(lock.End(all+from)), clientv3.WithKeysOnly(), clientv3.WithLimit(int64(q.Max)))
	}
	resp, err := s.commit(ctx, nil, nil, []clientv3.Op{part(s.keys.HeldFrom()), part(s.keys.LineFrom())}, nil)
	if err != nil {
		return driver.Page{}, err
	}
	held, more := names(resp.Responses[0].GetResponseRange(), s.keys.HeldFrom())
	line, most := names(resp.Responses[1].GetResponseRange(), s.keys.LineFrom())
	all := slices.Concat(held, line)
	slices.Sort(all)
	all = slices.Compact(all)
	// Where one of the two was cut off, only what both have reached is complete.
	if more {
		all = upTo(all, held[len(held)-1])
	}
	if most {
		all = upTo(all, line[len(line)-1])
	}
	var page driver.Page
	if more || most || len(all) > q.Max {
		all = all[:min(len(all), q.Max)]
		page.Next = all[len(all)-1]
	}
	for _, escaped := range all {
		name, err := lock.Unescape(escaped[:len(escaped)-1])
		if err != nil {
			return driver.Page{}, err
		}
		st, err := s.inspect(ctx, name)
		if err != nil {
			return driver.Page{}, err
		}
		if len(st.Holders) > 0 || st.Waiting > 0 {
			page.Locks = append(page.Locks, st)
		}
	}
	return page, nil
}

// names returns the names of a range as they stand in keys, with the bar at their
// end, in the order of the keys, and whether there are more.
func names(r *pb.RangeResponse, prefix string) (list []string, more bool) {
	for _, kv := range r.Kvs {
		if name, _, _, err := lock.ParseClaim(string(kv.Key), prefix); err == nil {
			list = append(list, name+"|")
		}
	}
	return list, r.More && len(list) > 0
}

func upTo(list []string, last string) []string {
	i, found := slices.BinarySearch(list, last)
	if found {
		i++
	}
	return list[:i]
}
