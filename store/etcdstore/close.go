// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"errors"
	"slices"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// batch is how many keys one transaction reads.
const batch = 100

// Close implements driver.Session. It revokes the lease, with which every key of
// the session goes, and then grants to the waiters.
func (se *session) Close(ctx context.Context) error {
	if err := lease.Before(ctx); err != nil {
		return se.C.Fail(ctx, "close", err, lease.Writing)
	}
	se.mu.Lock()
	if se.End() {
		close(se.ended)
		if se.pushes != nil {
			se.pushes.cancel()
		}
		se.notices.Close()
	}
	se.mu.Unlock()
	names, err := se.names(ctx)
	if err == nil {
		err = se.Revoke(ctx)
	}
	if err != nil {
		if lease.LeaseMissing(err) {
			return nil
		}
		return se.C.Fail(ctx, "close", err, lease.Writing)
	}
	// The session has ended. Waiters poll if this fails.
	_ = se.s.grantWaiters(ctx, names)
	return nil
}

// names returns the locks that the session holds or waits for.
func (se *session) names(ctx context.Context) ([]string, error) {
	keys, err := se.Attached(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, key := range keys {
		if p, err := se.s.keys.Parse(key); err == nil {
			if name, err := p.Plain(); err == nil {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// grantWaiters grants the locks to their waiters.
func (s *Store) grantWaiters(ctx context.Context, names []string) error {
	var failed error
	for part := range slices.Chunk(names, batch) {
		ops := make([]*pb.RequestOp, len(part))
		for i, name := range part {
			ops[i] = lease.Within(s.keys.Queue(name), &pb.RangeRequest{CountOnly: true})
		}
		resp, err := s.cluster.Commit(ctx, nil, nil, ops, nil)
		if err != nil {
			return err
		}
		for i, name := range part {
			if resp.Responses[i].GetResponseRange().Count > 0 {
				failed = errors.Join(failed, s.grantNext(ctx, name))
			}
		}
	}
	return failed
}

// Reclaim implements driver.Session. etcd does not lose data, so there is no grace and
// nothing is put back: a grant is held if it is there. After a restore from a
// snapshot there may be grants too many, which the last call drops.
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
	kept := make([]bool, 0, len(held))
	for part := range slices.Chunk(held, batch) {
		ops := []*pb.RequestOp{lease.Count(se.s.keys.Session(se.ID))}
		for _, h := range part {
			se.touch(se.target(h.Claim.Name, h.Claim.Seq), false)
			ops = append(ops, lease.Within(se.s.keys.HeldOf(h.Claim.Name, se.ID), &pb.RangeRequest{}))
		}
		resp, err := se.s.cluster.Commit(ctx, se.Session, nil, ops, nil)
		if err != nil {
			return nil, err
		}
		if resp.Responses[0].GetResponseRange().Count == 0 {
			return nil, driver.ErrGone
		}
		for i, h := range part {
			ok := false
			for _, kv := range resp.Responses[i+1].GetResponseRange().Kvs {
				e, end, err := se.s.entry(kv)
				if err != nil {
					return nil, err
				}
				ok = ok || end == "" && e.ID.Seq == h.Claim.Seq && e.Token() == h.Token.Base()
			}
			kept = append(kept, ok)
			se.watchGrant(&h.Claim, ok)
		}
	}
	if !last || !se.hasEarlier() {
		return kept, nil
	}
	if err := se.drop(ctx); err != nil {
		return kept, err
	}
	se.dropped()
	return kept, nil
}

// hasEarlier reports whether a resumed session may still have what it was not asked about.
func (se *session) hasEarlier() bool {
	se.mu.Lock()
	defer se.mu.Unlock()
	return se.touched != nil
}

// dropped notes that the session has nothing from before: otherwise it would note every claim for as long as it lives.
func (se *session) dropped() {
	se.mu.Lock()
	defer se.mu.Unlock()
	se.touched = nil
}

// drop withdraws what a resumed session has from before and was not asked about
// since: its release is what the cluster does not know.
func (se *session) drop(ctx context.Context) error {
	keys, err := se.Attached(ctx)
	if err != nil {
		return err
	}
	for _, key := range keys {
		p, err := se.s.keys.Parse(key)
		if err != nil || p.Session != se.ID {
			continue // not a key of a lock
		}
		name, err := p.Plain()
		if err == nil {
			err = se.dropKey(ctx, key, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (se *session) dropKey(ctx context.Context, key, name string) error {
	resp, err := se.s.cluster.Commit(ctx, se.Session, nil, []*pb.RequestOp{lease.Get(key)}, nil)
	if err != nil {
		return err
	}
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		e, _, bad := se.s.entry(kv)
		err = bad
		if err == nil && !se.knows(e.ID.Seq) {
			_, err = se.withdraw(ctx, driver.Withdrawal{Name: name, Seq: e.ID.Seq})
		}
	}
	return err
}

func (se *session) knows(seq uint64) bool {
	se.mu.Lock()
	defer se.mu.Unlock()
	return se.touched[seq]
}
