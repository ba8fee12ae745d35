// SPDX-License-Identifier: Apache-2.0

package concurrencystore

import (
	"context"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// queue reads the claims of a lock, in the order of their creation, so that what a client reads does not grow with the number
// of waiters:
//
//	create revision   812       815  …  907   911
//	                  first     before(911)   own
//
// Keys of locks whose names continue this one are in the same range and are skipped; only if such a key is there instead of a claim
// it reads all keys. All reads after the first are at the revision of the first.
type queue struct {
	s     *Store
	under string
}

// near is how many keys before its own a claim reads, to know its position.
const near = 8

// The order of the queue is that of the create revisions.
const (
	byCreation = pb.RangeRequest_CREATE
	ascending  = pb.RangeRequest_ASCEND
	descending = pb.RangeRequest_DESCEND
)

// first reads the first key, which has the lock, with its value.
func (q queue) first() *pb.RequestOp { return q.firstOf(1) }

func (q queue) firstOf(n int64) *pb.RequestOp {
	return lease.Within(q.under, &pb.RangeRequest{SortTarget: byCreation, SortOrder: ascending, Limit: n})
}

// last reads the last keys.
func (q queue) last(n int64) *pb.RequestOp {
	return lease.Within(q.under, &pb.RangeRequest{SortTarget: byCreation, SortOrder: descending, KeysOnly: true, Limit: n})
}

// before reads the last keys that were created before a revision.
func (q queue) before(revision, n int64) *pb.RequestOp {
	return lease.Within(q.under, &pb.RangeRequest{SortTarget: byCreation, SortOrder: descending, KeysOnly: true, Limit: n, MaxCreateRevision: revision - 1})
}

// isClaim reports whether a key in the range is a claim of this lock.
func (q queue) isClaim(kv *mvccpb.KeyValue) bool {
	return !strings.Contains(strings.TrimPrefix(string(kv.Key), q.under), "/")
}

// among returns the claims of this lock among keys.
func (q queue) among(kvs []*mvccpb.KeyValue) (all []entry) {
	for _, kv := range kvs {
		if q.isClaim(kv) {
			all = append(all, read(kv))
		}
	}
	return all
}

// front returns the claim that has the lock, from the answer to first, or nil.
func (q queue) front(ctx context.Context, resp *pb.RangeResponse, revision int64) (*entry, error) {
	if all := q.among(resp.Kvs); len(all) > 0 || !resp.More {
		return frontOf(all), nil
	}
	keys, err := q.keys(ctx, revision, 0)
	if err != nil {
		return nil, err
	}
	all, err := q.withValues(ctx, keys[:min(len(keys), 1)], revision)
	return frontOf(all), err
}

func frontOf(all []entry) *entry {
	if len(all) == 0 {
		return nil
	}
	return &all[0]
}

// previous returns the key of the claim before a claim, from the answer to before, or "".
func (q queue) previous(ctx context.Context, resp *pb.RangeResponse, revision int64) (string, error) {
	if all := q.among(resp.Kvs); len(all) > 0 {
		return all[0].key, nil
	}
	if !resp.More {
		return "", nil
	}
	keys, err := q.keys(ctx, revision, resp.Kvs[0].CreateRevision)
	if err != nil || len(keys) == 0 {
		return "", err
	}
	return string(keys[len(keys)-1].Key), nil
}

// head returns the first claims of a lock, at most so many, and how many there are.
func (q queue) head(ctx context.Context, most int) (claims []entry, total int, err error) {
	resp, err := q.s.read(ctx, q.firstOf(int64(most)))
	if err != nil {
		return nil, 0, err
	}
	claims = q.among(rangeOf(resp, 0).Kvs)
	if !rangeOf(resp, 0).More {
		return claims, len(claims), nil
	}
	keys, err := q.keys(ctx, resp.Header.Revision, 0)
	if n := min(len(keys), most); err == nil && len(claims) < n {
		claims, err = q.withValues(ctx, keys[:n], resp.Header.Revision)
	}
	return claims, len(keys), err
}

// keys reads the keys of all claims in one call, or of those that were created up to a revision. It does not read pages: a page would have to begin at a create revision, and a
// transaction of another program creates several keys at one.
func (q queue) keys(ctx context.Context, revision, until int64) ([]*mvccpb.KeyValue, error) {
	resp, err := q.s.read(ctx, lease.Within(q.under, &pb.RangeRequest{SortTarget: byCreation, SortOrder: ascending, KeysOnly: true, Revision: revision, MaxCreateRevision: until}))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rangeOf(resp, 0).Kvs, func(kv *mvccpb.KeyValue) bool { return !q.isClaim(kv) }), nil
}

// withValues reads claims by their keys, which are at most what one transaction reads.
func (q queue) withValues(ctx context.Context, keys []*mvccpb.KeyValue, revision int64) (all []entry, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	ops := make([]*pb.RequestOp, len(keys))
	for i, kv := range keys {
		ops[i] = lease.Read(&pb.RangeRequest{Key: kv.Key, Revision: revision})
	}
	resp, err := q.s.read(ctx, ops...)
	if err != nil {
		return nil, err
	}
	for i := range ops {
		all = append(all, q.among(rangeOf(resp, i).Kvs)...)
	}
	return all, nil
}

// position is how many waiters are before a claim, from the answer to before or, without its own key, to last. If they are not
// all in it, the position is at most what it was (unknown: -1), and at most what the range has beside the holder and the claim.
func (q queue) position(kvs []*mvccpb.KeyValue, more bool, inRange int64, was int) int {
	seen := len(q.among(kvs)) - 1 // the first of all is the holder
	if !more {
		return max(0, seen)
	}
	most := int(inRange) - 2
	if was >= 0 {
		most = min(most, was)
	}
	return max(seen, most)
}

func rangeOf(resp *pb.TxnResponse, i int) *pb.RangeResponse {
	return resp.Responses[i].GetResponseRange()
}
