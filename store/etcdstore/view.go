// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// front is how many queued claims are read at once. The rest wait behind these anyway.
const front = 8

// target is what an operation is about: a lock and perhaps one claim for it.
type target struct {
	name  string
	se    *session // whose claim it is; nil if it is about none
	claim driver.ClaimID
}

func (se *session) target(name string, seq uint64) target {
	return target{name, se, driver.ClaimID{Session: se.ID, Seq: seq}}
}

// session returns the session that the answer to a call must be for, nil for any.
func (t target) session() *lease.Session {
	if t.se == nil {
		return nil
	}
	return t.se.Session
}

// view is what was seen of a target.
type view struct {
	*lock.Snapshot
	session    bool        // the claim's session lives
	gone       bool        // the claim must not be granted
	tombstoned bool        // and that forever
	broken     bool        // an operator broke it
	queued     *lock.Entry // the claim in the queue
	place      int         // its place there, -1 if not known
	slots      []int       // that its session uses in this queue
	lean       bool        // a guess that is nearly always right
}

// The texts of gone keys: tombstoned stays until the session ends, spent until the
// claim is withdrawn.
const (
	tombstonedText = "tombstoned"
	spentText      = "spent"
)

// reads are the operations that read a target; limit bounds the queue.
func (s *Store) reads(t target, limit int64) []*pb.RequestOp {
	ops := []*pb.RequestOp{
		lease.Within(s.keys.Held(t.name), &pb.RangeRequest{}),
		lease.Within(s.keys.Queue(t.name), &pb.RangeRequest{Limit: limit, SortTarget: pb.RangeRequest_CREATE, SortOrder: pb.RangeRequest_ASCEND}),
		lease.Get(s.keys.Limit(t.name)),
	}
	if t.se != nil {
		ops = append(ops,
			lease.Count(s.keys.Session(t.claim.Session)),
			lease.Get(s.keys.Gone(t.claim)),
			lease.Count(s.keys.Broken(t.claim)),
			lease.Within(s.keys.QueueOf(t.name, t.claim.Session), &pb.RangeRequest{}))
	}
	return ops
}

// read reads a target at one revision.
func (s *Store) read(ctx context.Context, t target, limit int64) (*view, error) {
	resp, err := s.cluster.Commit(ctx, t.session(), nil, s.reads(t, limit), nil)
	if err != nil {
		return nil, err
	}
	return s.seen(t, resp.Header.Revision, resp.Responses)
}

// seen puts the answers to reads together.
func (s *Store) seen(t target, revision int64, answers []*pb.ResponseOp) (*view, error) {
	v := &view{Snapshot: &lock.Snapshot{Rev: revision}, place: -1}
	for _, kv := range answers[0].GetResponseRange().Kvs {
		e, end, err := s.entry(kv)
		if err != nil {
			return nil, err
		}
		v.AddHeld(e, end)
	}
	queue := answers[1].GetResponseRange()
	v.Count = int(queue.Count)
	for _, kv := range queue.Kvs {
		e, _, err := s.entry(kv)
		if err != nil {
			return nil, err
		}
		v.Queue = append(v.Queue, e)
	}
	for _, kv := range answers[2].GetResponseRange().Kvs {
		n, err := strconv.ParseInt(string(kv.Value), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the limit under %q is %q, not a number", kv.Key, kv.Value)
		}
		v.Limit, v.LimitMod = n, kv.ModRevision
	}
	if t.se == nil {
		return v, nil
	}
	v.session = answers[3].GetResponseRange().Count > 0
	for _, kv := range answers[4].GetResponseRange().Kvs {
		v.gone, v.tombstoned = true, string(kv.Value) == tombstonedText
	}
	v.broken = answers[5].GetResponseRange().Count > 0
	for _, kv := range answers[6].GetResponseRange().Kvs {
		e, _, err := s.entry(kv)
		if err != nil {
			return nil, err
		}
		v.slots = append(v.slots, e.Slot)
		if e.ID != t.claim {
			continue
		}
		v.queued, v.place = e, v.Position(e.ID)
		if v.place < 0 && e.Create == revision {
			v.place = v.Count - 1 // it has just come, so it is the last
		}
	}
	return v, nil
}

// entry reads one key of a claim.
func (s *Store) entry(kv *mvccpb.KeyValue) (*lock.Entry, string, error) {
	e := &lock.Entry{Key: string(kv.Key), Create: kv.CreateRevision, Mod: kv.ModRevision, Lease: kv.Lease}
	p, err := s.keys.Parse(e.Key)
	if err != nil {
		return nil, "", err
	}
	if err := json.Unmarshal(kv.Value, &e.Value); err != nil {
		return nil, "", fmt.Errorf("the value under %q was not written by this store: %w", kv.Key, err)
	}
	e.ID, e.Slot = driver.ClaimID{Session: p.Session, Seq: e.Value.Seq}, p.Slot
	return e, p.End, nil
}
