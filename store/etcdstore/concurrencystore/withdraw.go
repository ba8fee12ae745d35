// SPDX-License-Identifier: Apache-2.0

package concurrencystore

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Withdraw implements driver.Session.
func (se *session) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	if w.KeepFor > 0 {
		return driver.WasAbsent, se.C.Fail(ctx, "withdraw", errKeep, lease.Writing)
	}
	found, err := se.withdraw(ctx, w)
	if err != nil {
		return driver.WasAbsent, se.C.Fail(ctx, "withdraw", err, lease.Writing)
	}
	return found, nil
}

var errKeep = errors.Join(errors.New("this format cannot keep a lock taken"), driver.ErrRefused)

// withdraw deletes the key of the claim, if it is the claim's.
func (se *session) withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	k, known := se.claims.get(w.Seq)
	found, done, err := driver.WasGranted, false, error(nil)
	if known && k.state == granted {
		done, err = se.remove(ctx, w, se.keyOf(w.Name, k.slot), k.created)
	}
	if err == nil && !done {
		found, err = se.removeAfterReading(ctx, w, k, known)
	}
	if err != nil {
		return driver.WasAbsent, err
	}
	se.claims.drop(w.Name, w.Seq)
	return found, nil
}

// remove removes the key of a claim. It returns false if that is not there. A claim that it certainly did not remove is not leaving:
// if the key is gone another time, another program has deleted it.
func (se *session) remove(ctx context.Context, w driver.Withdrawal, key string, created int64) (bool, error) {
	se.claims.leave(w.Seq)
	resp, err := se.commit(ctx, []*pb.Compare{lease.CreatedAt(key, created)}, append(se.tombstone(w), lease.Remove(key)), nil)
	if err == nil && resp.Succeeded {
		return true, nil
	}
	if err == nil || lease.NotDone(ctx, err) {
		se.claims.stay(w.Seq)
	}
	return false, err
}

// tombstone is the operation that makes the store refuse the claim from now on, if the withdrawal asks for it.
func (se *session) tombstone(w driver.Withdrawal) []*pb.RequestOp {
	if !w.Tombstone {
		return nil
	}
	return []*pb.RequestOp{lease.Put(se.C.Keys.Gone(driver.ClaimID{Session: se.ID, Seq: w.Seq}), nil, se.Lease)}
}

// removeAfterReading reads what there is of a claim, and removes it if that has not changed since. It reads the key that the claim
// uses, and all keys of the session for the lock if the claim is not there: an earlier value of the session may have written it.
func (se *session) removeAfterReading(ctx context.Context, w driver.Withdrawal, k claim, known bool) (driver.Removed, error) {
	id := driver.ClaimID{Session: se.ID, Seq: w.Seq}
	broken, q := se.C.Keys.Broken(id), queue{se.s, se.s.under(w.Name)}
	for wide := !known; ; {
		own := lease.Get(se.keyOf(w.Name, k.slot))
		if wide {
			own = se.readOwn(w.Name)
		}
		resp, err := se.commit(ctx, nil, []*pb.RequestOp{own, q.first(), se.readHandle(), lease.Get(broken)}, nil)
		if err != nil {
			return driver.WasAbsent, err
		}
		handle := handleIn(resp, 2)
		mine := se.claimIn(w.Name, id, resp, 0)
		switch {
		case handle == 0:
			return driver.WasAbsent, driver.ErrGone
		case mine == nil && !wide:
			wide = true
			continue
		}
		front, err := q.front(ctx, rangeOf(resp, 1), resp.Header.Revision)
		if err != nil {
			return driver.WasAbsent, err
		}
		wide = true // for the next time, if it was broken or attempted in between
		if mine != nil {
			found := driver.WasQueued
			if front != nil && front.key == mine.key {
				found = driver.WasGranted
			}
			if done, err := se.remove(ctx, w, mine.key, mine.created); err != nil || done {
				return found, err
			}
			continue
		}
		ops, unless := se.tombstone(w), se.nothingSince(w.Name, resp.Header.Revision)
		// Only the latest value of the session knows that no other one has removed the key.
		now, here := se.claims.get(w.Seq)
		lost := here && now.state == granted && now.leaving == 0 && handle == se.claims.latest()
		found, mark := missing(rangeOf(resp, 3).Kvs, lost)
		if mark {
			ops = append(ops, lease.Put(broken, []byte(lease.Withdrawn), se.Lease))
		}
		if len(ops) == 0 {
			return found, nil
		}
		done, err := se.commit(ctx, []*pb.Compare{unless}, ops, nil)
		if err != nil || done.Succeeded {
			return found, err
		}
	}
}

// missing decides about a claim that has no key: by the mark that a break left, or because the lock was lost without one. mark
// is set if a mark must be written, so that each withdrawal finds the claim broken.
func missing(marks []*mvccpb.KeyValue, lost bool) (found driver.Removed, mark bool) {
	switch {
	case len(marks) > 0:
		return driver.WasBroken, string(marks[0].Value) != lease.Withdrawn
	case lost:
		return driver.WasBroken, true
	}
	return driver.WasAbsent, false
}
