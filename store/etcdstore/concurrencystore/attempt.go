// SPDX-License-Identifier: Apache-2.0

package concurrencystore

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/failure"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Attempt implements driver.Session.
func (se *session) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	out, err := se.attempt(ctx, c, c.Queue)
	if err != nil {
		return driver.Outcome{}, se.s.fail(ctx, "attempt", err, failure.Writing)
	}
	return out, nil
}

// attempt writes the key of the claim and reads where it stands. A try writes it only if the lock is free; if only locks
// whose names continue this one are in its range, it is written anyway, and removed if it is not the first.
func (se *session) attempt(ctx context.Context, c *driver.Claim, enqueue bool) (driver.Outcome, error) {
	id := driver.ClaimID{Session: se.id, Seq: c.Seq}
	key, under, own := se.key(c.Name, c.Seq), se.s.under(c.Name), se.s.keys.Session(se.id)
	text, err := json.Marshal(value{Session: se.id.String(), Seq: c.Seq, Since: time.Now().UnixMilli(), Record: *c.Terms.Record})
	if err != nil {
		return driver.Outcome{}, err
	}
	ifs := []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(own), ">", 0),
		clientv3.Compare(clientv3.CreateRevision(se.s.keys.Gone(id)), "=", 0),
		clientv3.Compare(clientv3.CreateRevision(key), "=", 0),
	}
	if !enqueue {
		ifs = append(ifs, clientv3.Compare(clientv3.CreateRevision(under).WithPrefix(), "<", 1))
	}
	contents := clientv3.OpGet(under, clientv3.WithPrefix(), byCreation)
	resp, err := se.commit(ctx, ifs,
		[]clientv3.Op{clientv3.OpPut(key, string(text), clientv3.WithLease(clientv3.LeaseID(se.lease))), contents},
		[]clientv3.Op{contents, clientv3.OpGet(own, clientv3.WithCountOnly()), clientv3.OpGet(se.s.keys.Gone(id), clientv3.WithCountOnly())})
	if err != nil {
		return driver.Outcome{}, err
	}
	if resp.Succeeded {
		return se.standing(ctx, c, contenders(under, rangeOf(resp, 1).Kvs))
	}
	all := contenders(under, rangeOf(resp, 0).Kvs)
	switch {
	case rangeOf(resp, 1).Count == 0:
		return driver.Outcome{}, driver.ErrGone
	case rangeOf(resp, 2).Count > 0:
		se.free(c.Name, c.Seq)
		return driver.Outcome{State: driver.Absent}, nil
	case enqueue || len(all) > 0:
		return se.standing(ctx, c, all)
	}
	out, err := se.attempt(ctx, c, true)
	if err == nil && out.State == driver.Queued {
		out.State = driver.Busy
		_, err = se.withdraw(ctx, driver.Withdrawal{Seq: c.Seq, Name: c.Name})
	}
	return out, err
}

func rangeOf(resp *clientv3.TxnResponse, i int) *pb.RangeResponse {
	return resp.Responses[i].GetResponseRange()
}

// standing is where a claim stands among those of its lock.
func (se *session) standing(ctx context.Context, c *driver.Claim, all []entry) (driver.Outcome, error) {
	at := se.index(c, all)
	if at == 0 {
		se.holds(c.Seq, grant{all[0].key, all[0].created})
		return driver.Outcome{State: driver.Granted, Token: all[0].token()}, nil
	}
	out := driver.Outcome{State: driver.Busy}
	if at > 0 {
		out.State, out.Position = driver.Queued, at-1
	} else {
		se.free(c.Name, c.Seq)
	}
	if len(all) == 0 {
		return out, nil
	}
	h := all[0].holder(time.Now())
	var err error
	if h.EndsIn, err = se.s.left(ctx, all[0].lease); err != nil {
		return driver.Outcome{}, err
	}
	out.Holders = []driver.Holder{h}
	out.PollAfter = max(h.EndsIn, time.Millisecond)
	return out, nil
}

// index returns the position of a claim, or -1.
func (se *session) index(c *driver.Claim, all []entry) int {
	for i, e := range all {
		if e.ours && e.id == (driver.ClaimID{Session: se.id, Seq: c.Seq}) {
			return i
		}
	}
	return -1
}

// position reads where a claim stands, without writing.
func (se *session) position(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	se.key(c.Name, c.Seq)
	under := se.s.under(c.Name)
	resp, err := se.commit(ctx, nil, []clientv3.Op{clientv3.OpGet(under, clientv3.WithPrefix(), byCreation),
		clientv3.OpGet(se.s.keys.Session(se.id), clientv3.WithCountOnly())}, nil)
	if err != nil {
		return driver.Outcome{}, err
	}
	if rangeOf(resp, 1).Count == 0 {
		return driver.Outcome{}, driver.ErrGone
	}
	return se.standing(ctx, c, contenders(under, rangeOf(resp, 0).Kvs))
}

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
	return driver.Outcome{}, se.s.fail(ctx, "await", err, failure.Reading)
}

func (se *session) await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	under := se.s.under(c.Name)
	for {
		resp, err := se.commit(ctx, nil, []clientv3.Op{clientv3.OpGet(under, clientv3.WithPrefix(), byCreation)}, nil)
		if err != nil {
			return driver.Outcome{}, err
		}
		all := contenders(under, rangeOf(resp, 0).Kvs)
		at := se.index(c, all)
		switch {
		case at < 0:
			return driver.Outcome{State: driver.Absent}, nil
		case at == 0:
			se.holds(c.Seq, grant{all[0].key, all[0].created})
			return driver.Outcome{State: driver.Granted, Token: all[0].token()}, nil
		}
		if err := se.deleted(ctx, all[at-1].key, resp.Header.Revision+1); err != nil {
			return driver.Outcome{}, err
		}
	}
}

// deleted returns when a key was deleted at a revision or later. A watch that begins after the last revision is notified
// at once; one that begins earlier is up to 100 ms late.
func (se *session) deleted(ctx context.Context, key string, from int64) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for resp := range se.s.client.Watch(ctx, key, clientv3.WithRev(from), clientv3.WithFilterPut()) {
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

// withdrawnBroken is the value of the mark of a broken claim that was withdrawn, as in etcdstore.
const withdrawnBroken = "withdrawn"

// Withdraw implements driver.Session.
func (se *session) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	if w.KeepFor > 0 {
		return driver.WasAbsent, se.s.fail(ctx, "withdraw", errKeep, failure.Writing)
	}
	found, err := se.withdraw(ctx, w)
	if err != nil {
		return driver.WasAbsent, se.s.fail(ctx, "withdraw", err, failure.Writing)
	}
	return found, nil
}

var errKeep = errors.Join(errors.New("this format cannot keep a lock taken"), driver.ErrRefused)

// withdraw deletes the key of the claim, if it is the claim's.
func (se *session) withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	id := driver.ClaimID{Session: se.id, Seq: w.Seq}
	under, broken := se.s.under(w.Name), se.s.keys.Broken(id)
	lease := clientv3.WithLease(clientv3.LeaseID(se.lease))
	for {
		resp, err := se.commit(ctx, nil, []clientv3.Op{clientv3.OpGet(under, clientv3.WithPrefix(), byCreation),
			clientv3.OpGet(se.s.keys.Session(se.id), clientv3.WithCountOnly()), clientv3.OpGet(broken)}, nil)
		switch {
		case err != nil:
			return driver.WasAbsent, err
		case rangeOf(resp, 1).Count == 0:
			return driver.WasAbsent, driver.ErrGone
		}
		all := contenders(under, rangeOf(resp, 0).Kvs)
		at := se.index(&driver.Claim{Seq: w.Seq}, all)
		var ifs []clientv3.Cmp
		var ops []clientv3.Op
		found := driver.WasAbsent
		if at >= 0 {
			found = driver.WasQueued
			if at == 0 {
				found = driver.WasGranted
			}
			ifs = append(ifs, clientv3.Compare(clientv3.CreateRevision(all[at].key), "=", all[at].created))
			ops = append(ops, clientv3.OpDelete(all[at].key))
		} else if key := se.slotKey(w.Name, w.Seq); key != "" && w.Tombstone {
			ifs = append(ifs, clientv3.Compare(clientv3.CreateRevision(key), "=", 0)) // an attempt may arrive just now
		}
		if marks := rangeOf(resp, 2).Kvs; at < 0 && len(marks) > 0 {
			found = driver.WasBroken
			if string(marks[0].Value) != withdrawnBroken {
				ops = append(ops, clientv3.OpPut(broken, withdrawnBroken, lease))
			}
		}
		if w.Tombstone {
			ops = append(ops, clientv3.OpPut(se.s.keys.Gone(id), "", lease))
		}
		if len(ops) > 0 {
			done, err := se.commit(ctx, ifs, ops, nil)
			if err != nil {
				return driver.WasAbsent, err
			}
			if !done.Succeeded {
				continue // it was broken or attempted in between
			}
		}
		se.free(w.Name, w.Seq)
		return found, nil
	}
}
