// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"context"
	"slices"

	"github.com/fencelock/fencelock/driver"
)

// session is a session whose calls are bent by the fault of its store.
//
// Arguments that the caller may change once the call has returned are copied,
// because a late call uses them after that.
type session struct {
	s     *Store
	shard string
	inner driver.Session
}

func (n *session) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	return travel(ctx, n.s, aboutShard(KeepAlive, n.shard), n.inner.KeepAlive)
}

func (n *session) Attempt(ctx context.Context, claim *driver.Claim) (driver.Outcome, error) {
	c, mine := aboutLock(Attempt, claim.Name), *claim
	return travel(ctx, n.s, c, func(ctx context.Context) (driver.Outcome, error) {
		return n.inner.Attempt(ctx, &mine)
	})
}

func (n *session) Await(ctx context.Context, claim *driver.Claim) (driver.Outcome, error) {
	c := aboutLock(Await, claim.Name)
	return travel(ctx, n.s, c, func(ctx context.Context) (driver.Outcome, error) {
		return n.inner.Await(ctx, claim)
	})
}

func (n *session) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	c := aboutLock(Withdraw, w.Name)
	return travel(ctx, n.s, c, func(ctx context.Context) (driver.Removed, error) {
		return n.inner.Withdraw(ctx, w)
	})
}

func (n *session) Reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	c, mine := aboutShard(Reclaim, n.shard), slices.Clone(held)
	for _, h := range held {
		c.names = append(c.names, h.Claim.Name)
	}
	return travel(ctx, n.s, c, func(ctx context.Context) ([]bool, error) {
		return n.inner.Reclaim(ctx, mine, last)
	})
}

func (n *session) Close(ctx context.Context) error {
	_, err := travel(ctx, n.s, aboutShard(Close, n.shard), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, n.inner.Close(ctx)
	})
	return err
}
