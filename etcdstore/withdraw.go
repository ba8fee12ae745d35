// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/etcdstore/internal/lock"
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
	if _, err := se.s.run(ctx, op.target, se.guess(op.target, w), op.decide); err != nil {
		return driver.WasAbsent, err
	}
	se.forget(w.Seq)
	return op.found, nil
}

// guess returns how the lock of a granted claim looks in most cases: nobody is in
// line, or those are whom the push of the grant told of. nil: look first.
func (se *session) guess(t target, w driver.Withdrawal) *view {
	se.mu.Lock()
	defer se.mu.Unlock()
	own := &lock.Entry{ID: t.claim, Key: t.keys.Held, Create: 1, Lease: se.lease}
	sn := &lock.Snapshot{Held: []*lock.Grant{{ID: t.claim, Main: own}}}
	wait := se.waits[w.Seq]
	switch {
	case w.KeepFor > 0:
		return nil
	case wait == nil:
	case wait.push == nil || wait.push.Holds || len(wait.push.Next) == 0:
		return nil // there was a line, and there may be one still
	default:
		own.Create, own.Mod = wait.rev, wait.rev
		sn.Rev, sn.Line, sn.Count = wait.rev, wait.push.Next, len(wait.push.Next)
		if wait.push.More {
			sn.Count++
		}
	}
	return &view{Snapshot: sn, session: true, place: -1}
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
	case v.inLine != nil:
		w.found = driver.WasQueued
		st = &step{after: v.WithoutLine(w.claim), ifs: []clientv3.Cmp{unchanged(v.inLine)},
			ops: []clientv3.Op{clientv3.OpDelete(w.keys.Line)}}
	default:
		return w.missing(v), nil
	}
	st.ops = append(st.ops, clientv3.OpDelete(w.keys.Wake))
	if w.w.Bury {
		st.ops = append(st.ops, w.bury())
	}
	return st, nil
}

// release removes a grant. What keeps the lock taken stays.
func (w *withdrawal) release(v *view, g *lock.Grant) (*step, error) {
	st := &step{ifs: []clientv3.Cmp{unchanged(g.Main)}, ops: []clientv3.Op{
		clientv3.OpDelete(w.keys.Held), clientv3.OpDelete(w.keys.Held + lock.EndMax),
	}}
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
		e := &lock.Entry{ID: g.ID, Key: w.keys.Held + lock.EndKeep, Value: g.Main.Value, Lease: id}
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
	st := &step{after: v.Snapshot, ifs: []clientv3.Cmp{absent(w.keys.Held), absent(w.keys.Line)}}
	if v.broken {
		w.found = driver.WasBroken
		st.ops = append(st.ops, clientv3.OpDelete(w.keys.Broken))
	}
	switch {
	case v.buried:
	case w.w.Bury:
		st.ops = append(st.ops, w.bury())
	case v.gone:
		st.ops = append(st.ops, clientv3.OpDelete(w.keys.Gone))
	}
	return st
}

// bury makes the store refuse the claim for the life of its session.
func (w *withdrawal) bury() clientv3.Op {
	return clientv3.OpPut(w.keys.Gone, buriedText, clientv3.WithLease(clientv3.LeaseID(w.se.lease)))
}
