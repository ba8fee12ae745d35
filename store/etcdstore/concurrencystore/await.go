// SPDX-License-Identifier: Apache-2.0

package concurrencystore

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// errWatch is why a watch ended early; the caller polls.
var errWatch = errors.New("the watch was cut")

// Await implements driver.Session: it watches the claim before its own, so that one waiter wakes when one claim goes.
func (se *session) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	out, err := se.await(ctx, c)
	switch {
	case err == nil:
		return out, nil
	case errors.Is(err, errWatch) && ctx.Err() == nil:
		return driver.Outcome{State: driver.Absent}, nil
	}
	return driver.Outcome{}, se.C.Fail(ctx, "await", err, lease.Reading)
}

func (se *session) await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	k, ok := se.claims.get(c.Seq)
	if !ok || k.created == 0 {
		return driver.Outcome{State: driver.Absent}, lease.Before(ctx)
	}
	q, key := queue{se.s, se.s.under(c.Name)}, se.keyOf(c.Name, k.slot)
	for {
		resp, err := se.commit(ctx, nil, []*pb.RequestOp{lease.Head(key), q.before(k.created, 1)}, nil)
		if err != nil {
			return driver.Outcome{}, err
		}
		if own := rangeOf(resp, 0).Kvs; len(own) == 0 || own[0].CreateRevision != k.created {
			return driver.Outcome{State: driver.Absent}, nil
		}
		previous, err := q.previous(ctx, rangeOf(resp, 1), resp.Header.Revision)
		switch {
		case err != nil:
			return driver.Outcome{}, err
		case previous == "":
			se.claims.stands(c.Seq, k.created, granted, 0)
			return driver.Outcome{State: driver.Granted, Token: lock.Token(k.created, 0)}, nil
		}
		if err := se.deleted(ctx, previous, resp.Header.Revision+1); err != nil {
			return driver.Outcome{}, err
		}
	}
}

// deleted returns when a key was deleted at a revision or later. A watch that begins after the last revision is notified
// at once; one that begins earlier is up to 100 ms late.
func (se *session) deleted(ctx context.Context, key string, from int64) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for resp := range se.C.Client.Watch(ctx, key, clientv3.WithRev(from), clientv3.WithFilterPut()) {
		if err := resp.Err(); err != nil {
			return errors.Join(errWatch, err)
		}
		if len(resp.Events) > 0 {
			return nil
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return errWatch
}
