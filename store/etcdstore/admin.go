// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
)

// Break implements driver.Store.
func (s *Store) Break(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	d, err := s.run(ctx, target{name: name}, nil, func(v *view) (*step, error) { return s.breaks(v, token) })
	if err != nil {
		return 0, s.cluster.Fail(ctx, "break", err, lease.Writing)
	}
	return lock.Token(d.rev, 0), nil
}

// breaks ends every grant with the token: one, or those that share it by re-entry.
// The transaction takes the first token of its revision itself, so it lies between
// the old holder's and the next one's.
func (s *Store) breaks(v *view, token driver.Token) (*step, error) {
	st := &step{after: v.Snapshot, first: 1}
	for _, g := range v.Valid() {
		if g.Entry().Token() != token.Base() {
			continue
		}
		st.after = st.after.Without(g)
		st.ifs = append(st.ifs, unchanged(g.Entry()))
		for _, key := range g.Keys() {
			st.ops = append(st.ops, lease.Remove(key))
		}
		if g.Main != nil {
			st.ops = append(st.ops, lease.Put(s.keys.Gone(g.ID), []byte(spentText), g.Main.Lease), lease.Put(s.keys.Broken(g.ID), nil, g.Main.Lease))
		}
	}
	if len(st.ops) == 0 {
		return nil, fmt.Errorf("no grant has token %v: %w", token, driver.ErrNotHeld)
	}
	return st, nil
}

// SetLimit implements driver.Store.
func (s *Store) SetLimit(ctx context.Context, name string, limit int64) error {
	if limit < 0 {
		return fmt.Errorf("etcdstore: limit %d is below 0: %w", limit, driver.ErrRefused)
	}
	key := s.keys.Limit(name)
	_, err := s.run(ctx, target{name: name}, nil, func(v *view) (*step, error) {
		after := *v.Snapshot
		after.Limit = limit
		op := lease.Remove(key)
		if limit > 0 {
			op = lease.Put(key, strconv.AppendInt(nil, limit, 10), lease.NoLease)
		}
		return &step{after: &after, ops: []*pb.RequestOp{op}, ifs: []*pb.Compare{lease.Modified(key, v.LimitMod)}}, nil
	})
	if err != nil {
		return s.cluster.Fail(ctx, "set limit", err, lease.Writing)
	}
	return nil
}

// inspect reads a lock, and first grants to waiters that fit.
func (s *Store) inspect(ctx context.Context, name string) (driver.Status, error) {
	t := target{name: name}
	v, err := s.read(ctx, t, driver.MaxWaitersReported)
	if err != nil {
		return driver.Status{}, err
	}
	if !v.Plan().Idle() {
		if err := s.grantNext(ctx, name); err != nil {
			return driver.Status{}, err
		}
		if v, err = s.read(ctx, t, driver.MaxWaitersReported); err != nil {
			return driver.Status{}, err
		}
	}
	return s.status(ctx, name, v)
}

// maxLeasesAsked bounds how many leases an inspection asks for what is left.
const maxLeasesAsked = 100

func (s *Store) status(ctx context.Context, name string, v *view) (driver.Status, error) {
	now := time.Now()
	st := driver.Status{Name: name, Waiting: v.Count, Limit: v.Limit}
	left := map[int64]time.Duration{}
	for _, g := range v.Valid() {
		h := holder(g, now)
		for _, e := range append(slices.Clone(g.Keeps), g.Main) {
			if e == nil || len(left) >= maxLeasesAsked {
				continue
			}
			if _, known := left[e.Lease]; !known {
				rest, granted, err := s.timeToLive(ctx, e.Lease)
				if err != nil {
					return driver.Status{}, err
				}
				left[e.Lease] = min(rest+time.Second, granted) // etcd rounds down
			}
		}
		h.EndsIn = endsIn(g, left)
		st.Holders = append(st.Holders, h)
	}
	for _, e := range v.Queue {
		st.Waiters = append(st.Waiters, driver.Waiter{
			Claim: e.ID, Mode: e.Value.DriverMode(), Weight: e.Value.Weight, Record: e.Value.Record, Age: e.Value.Age(now),
		})
	}
	return st, nil
}

// endsIn is when a grant ends if its session is not kept alive again.
func endsIn(g *lock.Grant, left map[int64]time.Duration) time.Duration {
	rest := func(e *lock.Entry) time.Duration {
		if d, ok := left[e.Lease]; ok {
			return d
		}
		return time.Duration(e.Value.TTL) * time.Second
	}
	var end time.Duration
	if g.Main != nil {
		end = rest(g.Main)
	}
	for _, k := range g.Keeps {
		end = max(end, rest(k))
	}
	if g.Main != nil && g.Max != nil {
		end = min(end, g.Main.Value.MaxHold)
	}
	return end
}

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
