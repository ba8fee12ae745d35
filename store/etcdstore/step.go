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

// step is one transaction on a lock: its own changes, and what follows from them for
// queued claims. It is decided from a view, and compares all that the decision needs.
type step struct {
	// after is the lock after the step's own changes.
	after *lock.Snapshot
	ifs   []*pb.Compare
	ops   []*pb.RequestOp
	// first is the index of the first token: 1 if the step takes one itself.
	first int
	// enqueue goes with the answer if the step fails: a claim that cannot be
	// granted is queued in the same round trip.
	enqueue *pb.RequestOp
	// lean: it rests on a guess that is nearly always right, and does not ask for
	// what is true instead. Requests travel through the log of every member, so
	// what is not asked for is not paid for.
	lean  bool
	plan  *lock.Plan // of after; made if it is nil
	holds map[driver.ClaimID]holdKeys
	keeps bool // its own changes use the lease of a hold
}

// newStep returns a step with room for what most have, in one allocation.
func newStep() *step {
	var s struct {
		step step
		ifs  [3]*pb.Compare
		ops  [3]*pb.RequestOp
	}
	n := &s
	n.step.ifs, n.step.ops = n.ifs[:0], n.ops[:0]
	return &n.step
}

// leased reports whether the lease of a hold plays a part.
func (st *step) leased() bool { return st.keeps || len(st.holds) > 0 }

// operation is a decision that is repeated until it rests on the truth. It
// returns nil if there is nothing to do.
type operation func(v *view) (*step, error)

// done is what became of an operation.
type done struct {
	*view         // what the last decision rested on
	step    *step // nil if nothing had to be done
	rev     int64 // of the step
	granted []grant
}

// grantOf returns the grant that the step gave to a claim.
func (d *done) grantOf(id driver.ClaimID) (grant, bool) {
	for _, g := range d.granted {
		if g.id == id {
			return g, true
		}
	}
	return grant{}, false
}

// run does an operation, beginning with a guess if there is one.
//
// Two operations on one lock may both decide on the same view; the second
// transaction then fails in one of its comparisons and answers with what is true
// now. Arrivals at the end of the queue never make a step fail that grants to its
// front, so the number of round trips does not grow with the number of waiters.
func (s *Store) run(ctx context.Context, t target, guess *view, decide operation) (*done, error) {
	v, limit := guess, int64(front)
	for {
		if v == nil {
			var err error
			if v, err = s.read(ctx, t, limit); err != nil {
				return nil, err
			}
		}
		st, err := decide(v)
		if err != nil {
			return nil, err
		}
		if st == nil {
			return &done{view: v}, nil
		}
		if st.plan == nil {
			st.plan = st.after.Plan()
		}
		if st.plan.Again {
			limit = lock.MaxPromote
		}
		if len(st.ops) == 0 && st.plan.Idle() {
			return &done{view: v}, nil
		}
		d, next, err := s.try(ctx, t, v, st, limit)
		if lease.LeaseMissing(err) {
			// Perhaps the lease of a hold ran out while we tried.
			if v, err = s.read(ctx, t, limit); err == nil && (t.se != nil && !v.session || !st.leased()) {
				err = driver.ErrGone
			}
			if err == nil {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		if d != nil {
			if st.plan.Again {
				// The operation is done. What is left is for waiters, who poll if
				// this fails.
				_ = s.grantNext(ctx, t.name)
			}
			return d, nil
		}
		v = next
	}
}

// grantNext grants to the waiters that fit.
func (s *Store) grantNext(ctx context.Context, name string) error {
	_, err := s.run(ctx, target{name: name}, nil, func(v *view) (*step, error) {
		return &step{after: v.Snapshot}, nil
	})
	return err
}

// try sends a step. It returns what became of it, or what is true instead.
func (s *Store) try(ctx context.Context, t target, v *view, st *step, limit int64) (*done, *view, error) {
	if err := s.holdsFor(ctx, st); err != nil {
		return nil, nil, err
	}
	ops, grants := s.changes(t, v, st)
	var otherwise []*pb.RequestOp
	if !st.lean {
		otherwise = s.reads(t, limit)
		if st.enqueue != nil {
			otherwise = append([]*pb.RequestOp{st.enqueue}, otherwise...)
		}
	}
	resp, err := s.cluster.Commit(ctx, t.session(), s.rests(t, v, st), ops, otherwise)
	if err != nil {
		return nil, nil, err
	}
	if !resp.Succeeded && st.lean {
		return nil, nil, nil
	}
	if !resp.Succeeded {
		answers := resp.Responses
		if st.enqueue != nil {
			answers = answers[1:]
		}
		next, err := s.seen(t, resp.Header.Revision, answers)
		return nil, next, err
	}
	d := &done{view: v, step: st, rev: resp.Header.Revision, granted: grants}
	for i := range grants {
		if g := &grants[i]; g.token == 0 {
			g.token = lock.Token(d.rev, g.index)
		}
	}
	return d, nil, nil
}

// rests compares all that a step and its plan rest on.
func (s *Store) rests(t target, v *view, st *step) []*pb.Compare {
	ifs := st.ifs
	same := func(e *lock.Entry) {
		if e.Create > 0 {
			ifs = append(ifs, unchanged(e))
		}
	}
	p := st.plan
	switch {
	case len(p.Promote) > 0 && p.Tail: // no claim was granted or queued since
		ifs = append(ifs, lease.NothingSince(s.keys.Lock(t.name), v.Rev))
	case len(p.Promote) > 0:
		ifs = append(ifs, lease.NothingSince(s.keys.Held(t.name), v.Rev))
	case p.Tail:
		ifs = append(ifs, lease.NothingSince(s.keys.Queue(t.name), v.Rev))
	}
	for _, pr := range p.Promote {
		same(pr.Entry)
		if pr.Join != 0 { // what it joins is still there
			for _, g := range st.after.Held {
				if g.Main != nil && g.Main.Token() == pr.Join {
					same(g.Main)
					break
				}
			}
		}
	}
	if p.Block != nil {
		same(p.Block)
	}
	for _, w := range p.Witness {
		same(w)
	}
	for _, g := range p.Drop {
		same(g.Entry())
	}
	if p.Limit {
		ifs = append(ifs, lease.Modified(s.keys.Limit(t.name), v.LimitMod))
	}
	return ifs
}

// grant is how a claim is granted by a step.
type grant struct {
	id    driver.ClaimID
	index int
	token driver.Token // that it joins; 0: a new one, which follows from the revision
	slot  int
}

// changes are the operations of a step, and those that carry out its plan.
func (s *Store) changes(t target, v *view, st *step) (ops []*pb.RequestOp, grants []grant) {
	ops = st.ops
	for _, g := range st.plan.Drop {
		for _, key := range g.Keys() {
			ops = append(ops, lease.Remove(key))
		}
		if g.Main != nil { // its MaxHold is over: attempted again it is not granted again
			ops = append(ops, lease.Put(s.keys.Gone(g.ID), []byte(spentText), g.Main.Lease))
		}
	}
	var pushes map[int64]*push // by lease, which is by session
	for _, pr := range st.plan.Promote {
		g := grant{id: pr.ID, index: st.first + pr.Index, token: pr.Join, slot: freeSlot(v, grants, pr.ID.Session)}
		grants = append(grants, g)
		ops = s.promote(ops, t, st, pr, g)
		if pr.Create == 0 {
			continue // the caller learns it from the answer
		}
		ops = append(ops, lease.Remove(pr.Key))
		if pushes == nil {
			pushes = map[int64]*push{}
		}
		if pushes[pr.Lease] == nil {
			pushes[pr.Lease] = &push{to: pr.ID.Session}
		}
		pushes[pr.Lease].Grants = append(pushes[pr.Lease].Grants, st.wake(pr, g))
	}
	for of, p := range pushes {
		ops = append(ops, lease.Put(s.keys.Wake(p.to), p.encode(), of))
	}
	return ops, grants
}

// freeSlot is the slot of one more grant of a session, beside those of the same step.
func freeSlot(v *view, grants []grant, session driver.SessionID) int {
	var taken []int
	for _, g := range grants {
		if g.id.Session == session {
			taken = append(taken, g.slot)
		}
	}
	return v.FreeSlot(session, taken)
}

// promote adds what writes the grant of a claim, and what limits it in time.
func (s *Store) promote(ops []*pb.RequestOp, t target, st *step, pr lock.Promotion, g grant) []*pb.RequestOp {
	value := pr.Value
	value.Index, value.Token = g.index, pr.Join
	if pr.Create > 0 {
		value.Since = time.Now().UnixMilli()
	}
	held := s.keys.HeldOf(t.name, pr.ID.Session) + strconv.Itoa(g.slot)
	ops = append(ops, lease.Put(held, value.Encode(), pr.Lease))
	h, ok := st.holds[pr.ID]
	if !ok {
		return ops
	}
	for end, id := range map[string]int64{lock.EndMax: h.max, lock.EndMin: h.min} {
		if id != 0 {
			kept := value
			kept.TTL = h.seconds[end]
			ops = append(ops, lease.Put(held+end, kept.Encode(), id))
		}
	}
	return ops
}

// unchanged compares a key with how it was seen. A guess knows only that it is
// there.
func unchanged(e *lock.Entry) *pb.Compare {
	if e.Mod == 0 {
		return lease.There(e.Key)
	}
	return lease.Modified(e.Key, e.Mod)
}
