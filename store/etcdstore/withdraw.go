// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"strconv"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// withdrawal removes one claim and grants to the next in the same transaction.
type withdrawal struct {
	target
	w     driver.Withdrawal
	keep  func() (id, ttl int64, err error) // nil without KeepFor
	found driver.Removed
}

// Withdraw implements driver.Session.
func (se *session) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	found, err := se.withdraw(ctx, w)
	if err != nil {
		return driver.WasAbsent, se.C.Fail(ctx, "withdraw", err, lease.Writing)
	}
	return found, nil
}

func (se *session) withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	if err := se.Enter(ctx); err != nil {
		return driver.WasAbsent, err
	}
	op := &withdrawal{target: se.target(w.Name, w.Seq), w: w}
	if w.KeepFor > 0 {
		op.keep = func() (int64, int64, error) { return se.s.holdFor(ctx, w.KeepFor) }
	}
	d, err := se.s.run(ctx, op.target, se.guess(op.target, w), op.decide)
	if err != nil {
		return driver.WasAbsent, err
	}
	se.dropClaim(w.Seq, w.Name, d.Count == 0)
	return op.found, nil
}

// guess returns what the lock of a granted claim is in most cases: without waiters, or
// with those that the push of the grant named. nil: read first.
func (se *session) guess(t target, w driver.Withdrawal) *view {
	se.mu.Lock()
	defer se.mu.Unlock()
	var is struct { // one allocation
		view view
		sn   lock.Snapshot
		held [1]*lock.Grant
		g    lock.Grant
		own  lock.Entry
	}
	guess := &is
	sn := &guess.sn
	at, ok := se.grants[w.Seq]
	if wait := se.waits[w.Seq]; wait != nil && wait.push != nil && len(wait.push.Next) > 0 {
		at, ok = place{rev: wait.rev, slot: wait.push.Slot}, true
		sn.Rev, sn.Queue, sn.Count = wait.rev, wait.push.Next, len(wait.push.Next)
		if wait.push.More {
			sn.Count++
		}
	}
	if !ok || w.KeepFor > 0 {
		return nil // nothing is known, or there was a queue and may be one still
	}
	guess.own = lock.Entry{ID: t.claim, Slot: at.slot, Key: se.s.keys.HeldOf(t.name, se.ID) + strconv.Itoa(at.slot),
		Create: at.rev, Mod: at.rev, Lease: se.Lease}
	guess.g = lock.Grant{ID: t.claim, Slot: at.slot, Main: &guess.own}
	if at.held {
		guess.g.Max = &lock.Entry{Key: guess.own.Key + lock.EndMax}
	}
	guess.held[0] = &guess.g
	sn.Held = guess.held[:]
	guess.view = view{Snapshot: sn, session: true, place: -1, lean: len(sn.Queue) == 0}
	return &guess.view
}

// decide is the operation of a withdrawal.
func (w *withdrawal) decide(v *view) (*step, error) {
	if !v.session {
		return nil, driver.ErrGone
	}
	g := v.Find(w.claim)
	var st *step
	switch {
	case g != nil && g.Main != nil:
		var err error
		if st, err = w.release(v, g); err != nil {
			return nil, err
		}
	case v.queued != nil:
		w.found = driver.WasQueued
		st = &step{after: v.WithoutQueued(w.claim), ifs: []*pb.Compare{unchanged(v.queued)},
			ops: []*pb.RequestOp{lease.Remove(v.queued.Key)}}
	default:
		return w.missing(v), nil
	}
	if w.w.Tombstone {
		st.ops = append(st.ops, w.tombstone())
	}
	return st, nil
}

// release removes a grant. What keeps the lock taken stays.
func (w *withdrawal) release(v *view, g *lock.Grant) (*step, error) {
	st := newStep()
	st.lean, st.ifs, st.ops = v.lean, append(st.ifs, unchanged(g.Main)), append(st.ops, lease.Remove(g.Main.Key))
	if g.Max != nil {
		st.ops = append(st.ops, lease.Remove(g.Max.Key))
	}
	w.found = driver.WasGranted
	if g.Over() {
		w.found = driver.WasAbsent
		for _, k := range g.Keeps {
			st.ops = append(st.ops, lease.Remove(k.Key))
		}
		st.after = v.Without(g)
		return st, nil
	}
	var kept []*lock.Entry
	if w.keep != nil {
		id, ttl, err := w.keep()
		if err != nil {
			return nil, err
		}
		e := &lock.Entry{ID: g.ID, Slot: g.Slot, Key: g.Main.Key + lock.EndKeep, Value: g.Main.Value, Lease: id}
		e.Value.TTL, e.Value.Since, e.Value.Token = ttl, time.Now().UnixMilli(), g.Main.Token()
		st.keeps = true
		st.ops = append(st.ops, lease.Put(e.Key, e.Value.Encode(), id))
		kept = append(kept, e)
	}
	st.after = v.WithoutHeld(g, kept...)
	return st, nil
}

// missing decides about a claim that is not there.
func (w *withdrawal) missing(v *view) *step {
	w.found = driver.WasAbsent
	keys := w.se.s.keys
	st := &step{after: v.Snapshot, ifs: []*pb.Compare{ // no attempt of it came since
		lease.NothingSince(keys.HeldOf(w.name, w.se.ID), v.Rev), lease.NothingSince(keys.QueueOf(w.name, w.se.ID), v.Rev),
	}}
	if v.broken {
		// The key stays, for a withdrawal that is sent twice, but is not reported any
		// more.
		w.found = driver.WasBroken
		st.ops = append(st.ops, lease.Put(keys.Broken(w.claim), []byte(lease.Withdrawn), w.se.Lease))
	}
	switch {
	case v.tombstoned:
	case w.w.Tombstone:
		st.ops = append(st.ops, w.tombstone())
	case v.gone:
		st.ops = append(st.ops, lease.Remove(keys.Gone(w.claim)))
	}
	return st
}

// tombstone makes the store refuse the claim until its session ends.
func (w *withdrawal) tombstone() *pb.RequestOp {
	return lease.Put(w.se.s.keys.Gone(w.claim), []byte(tombstonedText), w.se.Lease)
}
