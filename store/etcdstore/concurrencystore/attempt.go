// SPDX-License-Identifier: Apache-2.0

package concurrencystore

import (
	"context"
	"encoding/json"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// attempt is one try to be granted.
type attempt struct {
	*session
	queue
	c  *driver.Claim
	id driver.ClaimID
	// enqueue writes the key even if the lock is not free.
	enqueue bool
	text    []byte
}

// Attempt implements driver.Session.
func (se *session) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	out, err := se.attempt(ctx, c)
	if err != nil {
		return driver.Outcome{}, se.C.Fail(ctx, "attempt", err, lease.Writing)
	}
	return out, nil
}

func (se *session) attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	under, err := se.s.named(c.Name)
	if err != nil {
		return driver.Outcome{}, err
	}
	text, err := json.Marshal(value{Session: se.ID.String(), Seq: c.Seq, Since: time.Now().UnixMilli(), Record: *c.Terms.Record})
	if err != nil {
		return driver.Outcome{}, err
	}
	a := &attempt{session: se, queue: queue{se.s, under}, c: c, id: driver.ClaimID{Session: se.ID, Seq: c.Seq}, enqueue: c.Queue, text: text}
	return a.run(ctx)
}

// run writes the key of the claim and reads where it stands. A try writes it only if the lock is free.
func (a *attempt) run(ctx context.Context) (driver.Outcome, error) {
	slot, handle, ok := a.claims.take(a.c.Name, a.c.Seq)
	if !ok {
		return a.afterReading(ctx)
	}
	key := a.keyOf(a.c.Name, slot)
	resp, err := a.commit(ctx, a.ifs(handle, lease.Absent(key)), a.writes(key),
		[]*pb.RequestOp{lease.Get(key), a.first(), a.readHandle(), a.readGone()})
	if err != nil {
		return driver.Outcome{}, err
	}
	if resp.Succeeded {
		return a.written(ctx, slot, resp)
	}
	own := a.mine(resp, 0)
	switch now := handleIn(resp, 2); {
	case now == 0:
		return driver.Outcome{}, driver.ErrGone
	case rangeOf(resp, 3).Count > 0:
		return a.tombstoned()
	case own != nil:
		return a.standing(ctx, own, resp, 1)
	case now != handle || len(rangeOf(resp, 0).Kvs) > 0:
		return a.afterReading(ctx) // another value of the session may have written a key
	}
	return a.notFree(ctx, resp, 1)
}

// afterReading is run for a value of the session that does not know which keys the session has: it reads them, and writes
// if none was added since. It becomes the latest value by that.
func (a *attempt) afterReading(ctx context.Context) (driver.Outcome, error) {
	for {
		resp, err := a.commit(ctx, nil, []*pb.RequestOp{a.readOwn(a.c.Name), a.first(), a.readHandle(), a.readGone()}, nil)
		if err != nil {
			return driver.Outcome{}, err
		}
		handle, latest := handleIn(resp, 2), a.claims.latest()
		switch {
		case handle == 0:
			return driver.Outcome{}, driver.ErrGone
		case rangeOf(resp, 3).Count > 0:
			return a.tombstoned()
		}
		own := a.ownIn(a.c.Name, resp, 0)
		if handle == latest {
			a.claims.learn(a.c.Name, own)
		}
		if e := a.mine(resp, 0); e != nil {
			a.claims.use(a.c.Name, e.slot, a.c.Seq)
			return a.standing(ctx, e, resp, 1)
		}
		if !a.enqueue && len(rangeOf(resp, 1).Kvs) > 0 {
			return a.notFree(ctx, resp, 1)
		}
		slot := freeSlot(a.slotsIn(a.c.Name, resp, 0))
		then := a.writes(a.keyOf(a.c.Name, slot))
		if handle != latest {
			then = append(then, lease.Put(a.C.Keys.Handle(a.ID), nil, a.Lease))
		}
		done, err := a.commit(ctx, a.ifs(handle, a.nothingSince(a.c.Name, resp.Header.Revision)), then, nil)
		if err != nil {
			return driver.Outcome{}, err
		}
		if !done.Succeeded {
			continue // another attempt or a tombstone came first
		}
		if handle != latest {
			a.claims.took(done.Header.Revision)
			a.claims.learn(a.c.Name, own)
		}
		a.claims.use(a.c.Name, slot, a.c.Seq)
		return a.written(ctx, slot, done)
	}
}

func (a *attempt) s() *Store { return a.session.s }

// ifs are the comparisons of a write: the session lives and this value of it is the latest, and no tombstone came.
func (a *attempt) ifs(handle int64, more *pb.Compare) []*pb.Compare {
	keys := a.C.Keys
	ifs := []*pb.Compare{
		lease.Modified(keys.Handle(a.ID), handle),
		lease.Absent(keys.Gone(a.id)),
		more,
	}
	if !a.enqueue {
		ifs = append(ifs, lease.NothingSince(a.under, 0))
	}
	return ifs
}

// writes are the operations that write the key, and read what is before it.
func (a *attempt) writes(key string) []*pb.RequestOp {
	return []*pb.RequestOp{lease.Put(key, a.text, a.Lease), a.first(), a.last(near + 1)}
}

func (a *attempt) readGone() *pb.RequestOp {
	return lease.Count(a.C.Keys.Gone(a.id))
}

// mine returns the key of the claim among those that were read, or nil.
func (a *attempt) mine(resp *pb.TxnResponse, i int) *entry {
	return a.claimIn(a.c.Name, a.id, resp, i)
}

// tombstoned answers for a claim that must not be granted.
func (a *attempt) tombstoned() (driver.Outcome, error) {
	a.claims.drop(a.c.Name, a.c.Seq)
	return driver.Outcome{State: driver.Absent}, nil
}

// written answers for a claim whose key was written, the last one of the lock.
func (a *attempt) written(ctx context.Context, slot int, resp *pb.TxnResponse) (driver.Outcome, error) {
	own := &entry{key: a.keyOf(a.c.Name, slot), created: resp.Header.Revision}
	before := rangeOf(resp, 2)
	return a.place(ctx, own, rangeOf(resp, 1), resp.Header.Revision, func() (int, error) {
		return a.position(before.Kvs[1:], before.More, before.Count, -1), nil
	})
}

// standing answers for a claim whose key was there.
func (a *attempt) standing(ctx context.Context, own *entry, resp *pb.TxnResponse, first int) (driver.Outcome, error) {
	return a.place(ctx, own, rangeOf(resp, first), resp.Header.Revision, func() (int, error) {
		was := -1
		if k, ok := a.claims.get(a.c.Seq); ok && k.created == own.created {
			was = k.position
		}
		resp, err := a.commit(ctx, nil, []*pb.RequestOp{a.before(own.created, near)}, nil)
		if err != nil {
			return 0, err
		}
		before := rangeOf(resp, 0)
		return a.position(before.Kvs, before.More, before.Count, was), nil
	})
}

// place answers where a claim with a key stands.
func (a *attempt) place(ctx context.Context, own *entry, first *pb.RangeResponse, revision int64, position func() (int, error)) (driver.Outcome, error) {
	front, err := a.front(ctx, first, revision)
	switch {
	case err != nil:
		return driver.Outcome{}, err
	case front != nil && front.key == own.key:
		a.claims.stands(a.c.Seq, own.created, granted, 0)
		return driver.Outcome{State: driver.Granted, Token: own.token()}, nil
	}
	n, err := position()
	if err != nil {
		return driver.Outcome{}, err
	}
	a.claims.stands(a.c.Seq, own.created, queued, n)
	if a.enqueue && !a.c.Queue {
		_, err := a.withdraw(ctx, driver.Withdrawal{Seq: a.c.Seq, Name: a.c.Name})
		if err != nil {
			return driver.Outcome{}, err
		}
		return a.behind(ctx, driver.Outcome{State: driver.Busy}, front)
	}
	return a.behind(ctx, driver.Outcome{State: driver.Queued, Position: n}, front)
}

// notFree answers for a try that wrote nothing. If only locks whose names continue this one are in its range, it is
// written anyway, and removed if it is not the first.
func (a *attempt) notFree(ctx context.Context, resp *pb.TxnResponse, first int) (driver.Outcome, error) {
	front, err := a.front(ctx, rangeOf(resp, first), resp.Header.Revision)
	switch {
	case err != nil:
		return driver.Outcome{}, err
	case front == nil:
		a.enqueue = true
		return a.run(ctx)
	}
	a.claims.drop(a.c.Name, a.c.Seq)
	return a.behind(ctx, driver.Outcome{State: driver.Busy}, front)
}

// behind adds the holder, and when to poll.
func (a *attempt) behind(ctx context.Context, out driver.Outcome, front *entry) (driver.Outcome, error) {
	if front == nil {
		return out, nil
	}
	h := front.holder(time.Now())
	var err error
	if h.EndsIn, err = a.s().left(ctx, front.lease); err != nil {
		return driver.Outcome{}, err
	}
	out.Holders = []driver.Holder{h}
	out.PollAfter = driver.PollAfter(max(h.EndsIn, time.Millisecond), out.Position)
	return out, nil
}

// readOwn reads the keys of the session for a lock.
func (se *session) readOwn(name string) *pb.RequestOp {
	return lease.Read(&pb.RangeRequest{Key: []byte(se.ownKey(name)), RangeEnd: []byte(se.ownEnd(name))})
}

// nothingSince compares that no key of the session for a lock was created after a revision.
func (se *session) nothingSince(name string, revision int64) *pb.Compare {
	return lease.Created(se.ownKey(name), []byte(se.ownEnd(name)), pb.Compare_LESS, revision+1)
}

// ownIn returns the session's claims among keys that were read.
func (se *session) ownIn(name string, resp *pb.TxnResponse, i int) (own []entry) {
	for _, kv := range rangeOf(resp, i).Kvs {
		e := read(kv)
		if slot, ok := slotOf(e.key, se.ownKey(name)); ok && e.ours && e.id.Session == se.ID {
			e.slot = slot
			own = append(own, e)
		}
	}
	return own
}

// claimIn returns the key of a claim of the session among keys that were read, or nil. One whose value another program has
// changed is known by its create revision.
func (se *session) claimIn(name string, id driver.ClaimID, resp *pb.TxnResponse, i int) *entry {
	if e := find(se.ownIn(name, resp, i), id); e != nil {
		return e
	}
	k, known := se.claims.get(id.Seq)
	for _, kv := range rangeOf(resp, i).Kvs {
		if known && kv.CreateRevision == k.created && string(kv.Key) == se.keyOf(name, k.slot) {
			e := read(kv)
			e.slot = k.slot
			return &e
		}
	}
	return nil
}

// slotsIn returns the slots of all keys of the session that were read, even of those without a claim as their value: a claim
// that is written over one would get its create revision.
func (se *session) slotsIn(name string, resp *pb.TxnResponse, i int) (used []int) {
	for _, kv := range rangeOf(resp, i).Kvs {
		if slot, ok := slotOf(string(kv.Key), se.ownKey(name)); ok {
			used = append(used, slot)
		}
	}
	return used
}
