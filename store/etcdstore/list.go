// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// List implements driver.Store. The cursor is the last name shown, as it stands in
// keys. A page reads at most as many keys as it may show locks, and starts where the
// one before ended; nothing else is scanned.
func (s *Store) List(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	page, err := s.list(ctx, q)
	if err != nil {
		return driver.Page{}, s.cluster.Fail(ctx, "list", err, lease.Reading)
	}
	return page, nil
}

func (s *Store) list(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	prefix := s.keys.Locks() + lock.Escape(q.Prefix)
	start := []byte(prefix)
	if q.Cursor != "" {
		start = lock.End(s.keys.Locks() + q.Cursor)
	}
	resp, err := s.cluster.Commit(ctx, nil, nil, []*pb.RequestOp{
		lease.Read(&pb.RangeRequest{Key: start, RangeEnd: lock.End(prefix), KeysOnly: true, Limit: int64(q.Max)}),
	}, nil)
	if err != nil {
		return driver.Page{}, err
	}
	var page driver.Page
	found := resp.Responses[0].GetResponseRange()
	for _, kv := range found.Kvs {
		p, err := s.keys.Parse(string(kv.Key))
		if err != nil {
			return driver.Page{}, err
		}
		if p.Name == page.Next {
			continue // another key of the same lock
		}
		page.Next = p.Name
		name, err := p.Plain()
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
	if !found.More {
		page.Next = ""
	}
	return page, nil
}
