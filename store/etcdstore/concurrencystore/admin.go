// SPDX-License-Identifier: Apache-2.0

package concurrencystore

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Inspect implements driver.Store.
func (s *Store) Inspect(ctx context.Context, name string) (driver.Status, error) {
	st, err := s.inspect(ctx, name)
	if err != nil {
		return driver.Status{}, s.cluster.Fail(ctx, "inspect", err, lease.Reading)
	}
	return st, nil
}

func (s *Store) inspect(ctx context.Context, name string) (driver.Status, error) {
	under, err := s.named(name)
	if err != nil {
		return driver.Status{}, err
	}
	claims, total, err := queue{s, under}.head(ctx, driver.MaxWaitersReported+1) // the holder is one of them
	if err != nil {
		return driver.Status{}, err
	}
	st := driver.Status{Name: name, Waiting: max(0, total-1)}
	now := time.Now()
	for i, e := range claims {
		if i > 0 {
			st.Waiters = append(st.Waiters, driver.Waiter{Claim: e.id, Weight: 1, Record: e.record, Age: e.age(now)})
			continue
		}
		h := e.holder(now)
		if h.EndsIn, err = s.left(ctx, e.lease); err != nil {
			return driver.Status{}, err
		}
		st.Holders = append(st.Holders, h)
	}
	return st, nil
}

// left is how long a lease lasts if it is not kept alive again. etcd rounds it down to whole seconds.
func (s *Store) left(ctx context.Context, id int64) (time.Duration, error) {
	resp, err := s.cluster.Leases.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: id})
	if err != nil && !lease.LeaseMissing(err) {
		return 0, err
	}
	if err != nil || resp.TTL <= 0 {
		return 0, nil
	}
	return time.Duration(min(resp.TTL+1, resp.GrantedTTL)) * time.Second, nil
}

// List implements driver.Store: the keys of locks have no common prefix that is theirs alone.
func (s *Store) List(context.Context, driver.ListQuery) (driver.Page, error) {
	return driver.Page{}, fmt.Errorf("concurrencystore: list: locks of this format cannot be distinguished from other keys; read them with etcdctl get --prefix: %w", driver.ErrUnsupported)
}

// SetLimit implements driver.Store.
func (s *Store) SetLimit(context.Context, string, int64) error {
	return fmt.Errorf("concurrencystore: set limit: this format has no semaphores: %w", driver.ErrUnsupported)
}

// Break implements driver.Store. The fence is between the token of the broken claim and those of all waiters, which have
// their revisions already. A holder with another library is not notified.
func (s *Store) Break(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	fence, err := s.breaks(ctx, name, token)
	if err != nil {
		return 0, s.cluster.Fail(ctx, "break", err, lease.Writing)
	}
	return fence, nil
}

func (s *Store) breaks(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	under, err := s.named(name)
	if err != nil {
		return 0, err
	}
	q := queue{s, under}
	resp, err := s.read(ctx, q.first())
	if err != nil {
		return 0, err
	}
	e, err := q.front(ctx, rangeOf(resp, 0), resp.Header.Revision)
	if err != nil {
		return 0, err
	}
	notHeld := fmt.Errorf("no grant has token %v: %w", token, driver.ErrNotHeld)
	if e == nil || e.token() != token.Base() {
		return 0, notHeld
	}
	ops := []*pb.RequestOp{lease.Remove(e.key)}
	if e.ours {
		ops = append(ops, lease.Put(s.cluster.Keys.Gone(e.id), nil, e.lease), lease.Put(s.cluster.Keys.Broken(e.id), nil, e.lease))
	}
	done, err := s.cluster.Commit(ctx, nil, []*pb.Compare{lease.CreatedAt(e.key, e.created)}, ops, nil)
	switch {
	case lease.LeaseMissing(err), err == nil && !done.Succeeded:
		return 0, notHeld // it ended in between
	case err != nil:
		return 0, err
	}
	return lock.Token(e.created, 1), nil
}
