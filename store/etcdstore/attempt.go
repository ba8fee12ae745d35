// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// attempt is one try to be granted.
type attempt struct {
	target
	c     *driver.Claim
	entry lock.Entry // the claim as it would be queued
}

// Attempt implements driver.Session.
func (se *session) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	out, err := se.attempt(ctx, c)
	if err != nil {
		return driver.Outcome{}, se.C.Fail(ctx, "attempt", err, lease.Writing)
	}
	se.watchGrant(c, out.State == driver.Granted)
	return out, nil
}

func (se *session) attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if err := se.Enter(ctx); err != nil {
		return driver.Outcome{}, err
	}
	a := &attempt{target: se.target(c.Name, c.Seq), c: c}
	known := se.touch(a.target, c.Queue)
	a.entry = lock.Entry{ID: a.claim, Lease: se.Lease, Value: lock.NewValue(c.Seq, c.Terms, se.TTL, time.Now())}
	var guess *view
	if !known {
		// The lock is free, in most cases. If not, the answer queues the claim.
		guess = &view{Snapshot: &lock.Snapshot{}, session: true, place: -1, lean: !se.contended(c.Name)}
	}
	d, err := se.s.run(ctx, a.target, guess, a.decide)
	if err != nil {
		return driver.Outcome{}, err
	}
	return a.outcome(ctx, d)
}

// touch notes that a claim is attempted, and reports whether it was queued before. The
// claim must be known before the attempt is sent: the push of a grant may overtake the
// answer that the claim is queued.
func (se *session) touch(t target, queue bool) (known bool) {
	se.mu.Lock()
	defer se.mu.Unlock()
	seq := t.claim.Seq
	if se.touched != nil {
		se.touched[seq] = true
	}
	w := se.waits[seq]
	if w == nil && queue {
		se.waits[seq] = &waiting{target: t}
	}
	return w != nil && w.create > 0
}

// decide is the operation of an attempt.
func (a *attempt) decide(v *view) (*step, error) {
	if !v.session {
		return nil, driver.ErrGone
	}
	if v.gone {
		return nil, nil
	}
	if g := v.Find(a.claim); g != nil && g.Main != nil {
		return a.again(v, g), nil
	}
	// A claim that re-enters a grant passes the queue, so it does not matter how much of the queue was read: the grants
	// are read whole.
	if v.queued != nil {
		if v.Position(a.claim) < 0 && v.Reenters(&v.queued.Value) {
			return &step{after: v.WithLast(v.queued)}, nil
		}
		return &step{after: v.Snapshot}, nil
	}
	if v.Whole() || v.Reenters(&a.entry.Value) {
		after := v.WithLast(&a.entry)
		if plan := after.Plan(); promotes(plan, a.claim) {
			st := newStep()
			st.after, st.plan, st.lean = after, plan, v.lean
			if plan.Tail {
				// That the session lives follows from its lease, on which the grant
				// is put, and the plan compares that nothing at all came since.
				st.ifs = append(st.ifs, lease.Absent(a.se.s.keys.Gone(a.claim)))
			} else {
				st.ifs = append(st.ifs, a.fresh(v)...)
			}
			if a.c.Queue && !v.lean {
				st.enqueue = lease.Nested(a.fresh(v), a.enqueue(v))
			}
			return st, nil
		}
	}
	if a.c.Queue {
		return &step{after: v.Snapshot, ifs: a.fresh(v), ops: []*pb.RequestOp{a.enqueue(v)}}, nil
	}
	return &step{after: v.Snapshot}, nil
}

// fresh compares that the session lives and that no other attempt of the claim has
// come first: nothing of the session was added to this lock since.
func (a *attempt) fresh(v *view) []*pb.Compare {
	keys := a.se.s.keys
	return []*pb.Compare{
		lease.There(keys.Session(a.se.ID)), lease.Absent(keys.Gone(a.claim)),
		lease.NothingSince(keys.HeldOf(a.name, a.se.ID), v.Rev), lease.NothingSince(keys.QueueOf(a.name, a.se.ID), v.Rev),
	}
}

// enqueue queues the claim.
func (a *attempt) enqueue(v *view) *pb.RequestOp {
	slot := 0
	for slices.Contains(v.slots, slot) {
		slot++
	}
	key := a.se.s.keys.QueueOf(a.name, a.se.ID) + strconv.Itoa(slot)
	return lease.Put(key, a.entry.Value.Encode(), a.se.Lease)
}

func promotes(p *lock.Plan, id driver.ClaimID) bool {
	for _, pr := range p.Promote {
		if pr.ID == id {
			return true
		}
	}
	return false
}

// again decides about a claim that has its grant.
func (a *attempt) again(v *view, g *lock.Grant) *step {
	if g.Over() {
		return &step{after: v.Snapshot} // drops it
	}
	if g.Main.Value.Shared() || a.c.Terms.Mode != driver.Shared {
		return nil
	}
	down := *g.Main
	down.Value.Downgrade(a.c.Terms)
	after := v.Without(g)
	after.Held = append(after.Held, &lock.Grant{ID: g.ID, Slot: g.Slot, Main: &down, Max: g.Max, Keeps: g.Keeps})
	return &step{after: after, ifs: []*pb.Compare{unchanged(g.Main)},
		ops: []*pb.RequestOp{lease.Put(down.Key, down.Value.Encode(), down.Lease)}}
}

// outcome returns where a claim stands.
func (a *attempt) outcome(ctx context.Context, d *done) (driver.Outcome, error) {
	if g, ok := d.grantOf(a.claim); ok {
		if d.queued != nil {
			a.se.note(a.target, d.queued.Create, d.rev).grant(g.token)
		} else {
			a.se.holds(a.claim.Seq, place{d.rev, g.slot, a.c.Terms.MaxHold > 0})
		}
		return a.granted(ctx, g.token, d.step.holds[a.claim].max)
	}
	g := d.Find(a.claim)
	switch {
	case d.gone || g != nil && g.Over():
		return driver.Outcome{State: driver.Absent}, nil
	case g != nil && g.Main != nil:
		var lease int64
		if g.Max != nil {
			lease = g.Max.Lease
		}
		return a.granted(ctx, g.Main.Token(), lease)
	}
	out := driver.Outcome{State: driver.Busy}
	if d.queued != nil || a.c.Queue {
		out.State = driver.Queued
		create, place := d.rev, d.Count
		if d.queued != nil {
			create, place = d.queued.Create, d.place
		}
		var err error
		if place < 0 {
			if place, err = a.se.place(ctx, a.target, create); err != nil {
				return driver.Outcome{}, err
			}
		}
		out.Position = max(0, place-len(d.granted))
		a.se.note(a.target, create, max(d.Rev, d.rev))
		a.se.contend(a.name)
	}
	now := time.Now()
	for _, g := range d.Valid() {
		if len(out.Holders) < driver.MaxHoldersReported {
			out.Holders = append(out.Holders, holder(g, now))
		}
	}
	out.PollAfter = driver.PollAfter(soonest(d.Snapshot), out.Position)
	return out, nil
}

// granted answers with a token, and with how much is left of a MaxHold.
func (a *attempt) granted(ctx context.Context, token driver.Token, hold int64) (driver.Outcome, error) {
	out := driver.Outcome{State: driver.Granted, Token: token}
	var err error
	if hold != 0 {
		out.Remaining, err = a.se.s.remaining(ctx, hold, a.c.Terms.MaxHold)
	}
	return out, err
}

const (
	// maxContended bounds what a session remembers of contended names.
	maxContended = 1024
	// calm is how often a lock is given back without waiters before its name
	// counts as free again.
	calm = 16
)

// contend remembers that claims wait for a name: the next attempt is then queued in the
// same round trip.
func (se *session) contend(name string) {
	se.mu.Lock()
	defer se.mu.Unlock()
	if len(se.busy) >= maxContended {
		clear(se.busy)
	}
	se.busy[name] = calm
}

// contended reports whether a name is thought to be contended.
func (se *session) contended(name string) bool {
	se.mu.Lock()
	defer se.mu.Unlock()
	return se.busy[name] > 0
}

// holds notes where a claim's grant is, so that its withdrawal need not read it. It is
// right until the grant changes, and a withdrawal compares that.
func (se *session) holds(seq uint64, p place) {
	se.mu.Lock()
	defer se.mu.Unlock()
	delete(se.waits, seq) // it was not queued
	se.grants[seq] = p
}

// place counts the queued claims before a claim that is far from its front.
func (se *session) place(ctx context.Context, t target, create int64) (int, error) {
	resp, err := se.s.cluster.Commit(ctx, se.Session, nil, []*pb.RequestOp{
		lease.Within(se.s.keys.Queue(t.name), &pb.RangeRequest{KeysOnly: true, MaxCreateRevision: create - 1}),
	}, nil)
	if err != nil {
		return 0, err
	}
	return len(resp.Responses[0].GetResponseRange().Kvs), nil
}

// soonest is when the first of those who have the lock must have ended, counted
// from now although its time began to run before: etcd returns what is left of a
// lease in a separate call only, and a watch reports the end.
func soonest(s *lock.Snapshot) time.Duration {
	var least time.Duration
	for _, g := range s.Valid() {
		ttl := time.Duration(g.Entry().Value.TTL) * time.Second
		if g.Main != nil && g.Max != nil {
			ttl = min(ttl, time.Duration(g.Max.Value.TTL)*time.Second)
		}
		if least == 0 || ttl < least {
			least = ttl
		}
	}
	return least
}

func holder(g *lock.Grant, now time.Time) driver.Holder {
	e := g.Entry()
	v := &e.Value
	h := driver.Holder{
		Claim: g.ID, Token: e.Token(), Mode: v.DriverMode(), Weight: v.Weight, Reentry: v.Reentry,
		Record: v.Record, Age: v.Age(now), EndsIn: time.Duration(v.TTL) * time.Second, Kept: g.Kept(), Linger: v.Linger,
	}
	if g.Kept() {
		h.Claim.Session = driver.SessionID{} // of no session
	}
	return h
}
