// SPDX-License-Identifier: Apache-2.0

package concurrencystore

import (
	"context"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Reclaim implements driver.Session. etcd does not lose data, so nothing is put back: a grant is held if it is there. What a
// restored cluster has too much, the last call removes.
func (se *session) Reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	kept, err := se.reclaim(ctx, held, last)
	if err != nil {
		return nil, se.C.Fail(ctx, "reclaim", err, lease.Writing)
	}
	return kept, nil
}

func (se *session) reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	if err := se.Enter(ctx); err != nil {
		return nil, err
	}
	kept := make([]bool, len(held))
	for i := range held {
		var err error
		if kept[i], err = se.confirm(ctx, &held[i]); err != nil {
			return nil, err
		}
	}
	if last {
		return kept, se.dropEarlier(ctx)
	}
	return kept, nil
}

// confirm reads whether a claim has its grant.
func (se *session) confirm(ctx context.Context, h *driver.Held) (bool, error) {
	c := &h.Claim
	se.claims.touch(c.Seq)
	q := queue{se.s, se.s.under(c.Name)}
	resp, err := se.commit(ctx, nil, []*pb.RequestOp{se.readOwn(c.Name), q.first(), se.readHandle()}, nil)
	if err != nil {
		return false, err
	}
	handle := handleIn(resp, 2)
	if handle == 0 {
		return false, driver.ErrGone
	}
	own := se.ownIn(c.Name, resp, 0)
	if handle == se.claims.latest() {
		se.claims.learn(c.Name, own)
	}
	front, err := q.front(ctx, rangeOf(resp, 1), resp.Header.Revision)
	mine := se.grantIn(c.Name, h.Token.Base(), resp, 0)
	if err != nil || mine == nil || front == nil || front.key != mine.key {
		return false, err
	}
	se.claims.use(c.Name, mine.slot, c.Seq)
	se.claims.stands(c.Seq, mine.created, granted, 0)
	return true, nil
}

// grantIn returns the key of a grant of the session among keys that were read, or nil. It is known by its create revision, which the
// token has: another program may have written over its value.
func (se *session) grantIn(name string, token driver.Token, resp *pb.TxnResponse, i int) *entry {
	for _, kv := range rangeOf(resp, i).Kvs {
		e, ok := read(kv), false
		if e.slot, ok = slotOf(e.key, se.ownKey(name)); ok && e.token() == token {
			return &e
		}
	}
	return nil
}

// dropEarlier removes what a resumed session has from before and was not asked about since.
func (se *session) dropEarlier(ctx context.Context) error {
	if !se.claims.resuming() {
		return nil
	}
	attached, err := se.Attached(ctx)
	if err != nil {
		return err
	}
	for _, key := range attached {
		at := strings.LastIndex(key, "/")
		if at < len(se.s.prefix) || !strings.HasPrefix(key, se.s.prefix) {
			continue
		}
		name := key[len(se.s.prefix):at]
		slot, ok := slotOf(key, se.ownKey(name))
		if !ok {
			continue
		}
		if err := se.dropKey(ctx, name, key, slot); err != nil {
			return err
		}
	}
	se.claims.dropped()
	return nil
}

// dropKey removes a key of the session unless the session was asked about its claim. If another program wrote over the value, the
// claim is not known, and the key goes unless a claim uses it: it would block the lock for as long as the session lives.
func (se *session) dropKey(ctx context.Context, name, key string, slot int) error {
	resp, err := se.commit(ctx, nil, []*pb.RequestOp{lease.Get(key)}, nil)
	if err != nil {
		return err
	}
	if own := se.ownIn(name, resp, 0); len(own) > 0 {
		if seq := own[0].id.Seq; se.claims.untouched(seq) {
			_, err = se.withdraw(ctx, driver.Withdrawal{Seq: seq, Name: name})
		}
		return err
	}
	for _, kv := range rangeOf(resp, 0).Kvs {
		if !se.claims.used(name, slot) {
			_, err = se.commit(ctx, []*pb.Compare{lease.CreatedAt(key, kv.CreateRevision)}, []*pb.RequestOp{lease.Remove(key)}, nil)
		}
	}
	return err
}
