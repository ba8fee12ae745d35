// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"strconv"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// withdrawal removes one claim and grants to the next in the same transaction.
type withdrawal struct {
	target
	w     driver.Withdrawal
	keep  func() (id, ttl int64, err error)
	found driver.Removed
}

// Withdraw implements driver.Session.
func (se *session) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	found, err := se.withdraw(ctx, w)
	if err != nil {
		return driver.WasAbsent, fail(ctx, "withdraw", err, writing)
	}
	return found, nil
}

func (se *session) withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	if err := se.enter(ctx); err != nil {
		return driver.WasAbsent, err
	}
	op := &withdrawal{target: se.target(w.Name, w.Seq), w: w}
	op.keep = func() (int64, int64, error) { return se.s.holdFor(ctx, w.KeepFor) }
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
	sn := &lock.Snapshot{}
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
	own := &lock.Entry{ID: t.claim, Slot: at.slot, Key: se.s.keys.HeldOf(t.name, se.id) + strconv.Itoa(at.slot),
		Create: at.rev, Mod: at.rev, Lease: se.lease}
	sn.Held = []*lock.Grant{{ID: t.claim, Slot: at.slot, Main: own}}
	if at.held {
		sn.Held[0].Max = &lock.Entry{Key: own.Key + lock.EndMax}
	}
	return &view{Snapshot: sn, session: true, place: -1, lean: len(sn.Queue) == 0}
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
		st = &step{after: v.WithoutQueued(w.claim), ifs: []clientv3.Cmp{unchanged(v.queued)},
			ops: []clientv3.Op{clientv3.OpDelete(v.queued.Key)}}
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
	st := &step{lean: v.lean, ifs: []clientv3.Cmp{unchanged(g.Main)}, ops: []clientv3.Op{clientv3.OpDelete(g.Main.Key)}}
	if g.Max != nil {
		st.ops = append(st.ops, clientv3.OpDelete(g.Max.Key))
	}
	w.found = driver.WasGranted
	if g.Over() {
		w.found = driver.WasAbsent
		for _, k := range g.Keeps {
			st.ops = append(st.ops, clientv3.OpDelete(k.Key))
		}
		st.after = v.Without(g)
		return st, nil
	}
	var kept []*lock.Entry
	if w.w.KeepFor > 0 {
		id, ttl, err := w.keep()
		if err != nil {
			return nil, err
		}
		e := &lock.Entry{ID: g.ID, Slot: g.Slot, Key: g.Main.Key + lock.EndKeep, Value: g.Main.Value, Lease: id}
		e.Value.TTL, e.Value.Since, e.Value.Token = ttl, time.Now().UnixMilli(), g.Main.Token()
		st.keeps = true
		st.ops = append(st.ops, clientv3.OpPut(e.Key, e.Value.Encode(), clientv3.WithLease(clientv3.LeaseID(id))))
		kept = append(kept, e)
	}
	st.after = v.WithoutHeld(g, kept...)
	return st, nil
}

// missing decides about a claim that is not there.
func (w *withdrawal) missing(v *view) *step {
	w.found = driver.WasAbsent
	keys := w.se.s.keys
	st := &step{after: v.Snapshot, ifs: []clientv3.Cmp{ // no attempt of it came since
		nothingSince(keys.HeldOf(w.name, w.se.id), v.Rev), nothingSince(keys.QueueOf(w.name, w.se.id), v.Rev),
	}}
	if v.broken {
		// The key stays, for a withdrawal that is sent twice, but is not reported any
		// more.
		w.found = driver.WasBroken
		st.ops = append(st.ops, clientv3.OpPut(keys.Broken(w.claim), withdrawn, clientv3.WithLease(clientv3.LeaseID(w.se.lease))))
	}
	switch {
	case v.tombstoned:
	case w.w.Tombstone:
		st.ops = append(st.ops, w.tombstone())
	case v.gone:
		st.ops = append(st.ops, clientv3.OpDelete(keys.Gone(w.claim)))
	}
	return st
}

// tombstone makes the store refuse the claim until its session ends.
func (w *withdrawal) tombstone() clientv3.Op {
	return clientv3.OpPut(w.se.s.keys.Gone(w.claim), tombstonedText, clientv3.WithLease(clientv3.LeaseID(w.se.lease)))
}
