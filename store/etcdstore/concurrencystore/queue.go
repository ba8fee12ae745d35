// SPDX-License-Identifier: Apache-2.0

package concurrencystore

import (
	"context"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// queue reads the claims of a lock, in the order of their creation, so that what a client reads does not grow with the number
// of waiters:
//
//	create revision   812       815  …  907   911
//	                  first     before(911)   own
//
// Keys of locks whose names continue this one are in the same range and are skipped; only for these it reads on. All reads after
// the first are at the revision of the first.
type queue struct {
	s     *Store
	under string
}

const (
	// near is how many keys before its own a claim reads, to know its position.
	near = 8
	// keysAtOnce is how many keys are read at once where many may come.
	keysAtOnce = 1000
)

// The order of the queue is that of the create revisions.
var (
	ascending  = clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)
	descending = clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend)
)

// first reads the first key, which has the lock, with its value.
func (q queue) first() clientv3.Op {
	return clientv3.OpGet(q.under, clientv3.WithPrefix(), ascending, clientv3.WithLimit(1))
}

// last reads the last keys.
func (q queue) last(n int64) clientv3.Op {
	return clientv3.OpGet(q.under, clientv3.WithPrefix(), descending, clientv3.WithKeysOnly(), clientv3.WithLimit(n))
}

// before reads the last keys that were created before a revision.
func (q queue) before(revision, n int64) clientv3.Op {
	return clientv3.OpGet(q.under, clientv3.WithPrefix(), descending, clientv3.WithKeysOnly(), clientv3.WithLimit(n), clientv3.WithMaxCreateRev(revision-1))
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
	for {
		if all := q.among(resp.Kvs); len(all) > 0 {
			return &all[0], nil
		}
		if !resp.More {
			return nil, nil
		}
		next := resp.Kvs[len(resp.Kvs)-1].CreateRevision + 1
		more, err := q.s.read(ctx, clientv3.OpGet(q.under, clientv3.WithPrefix(), ascending, clientv3.WithLimit(near),
			clientv3.WithMinCreateRev(next), clientv3.WithRev(revision)))
		if err != nil {
			return nil, err
		}
		resp = rangeOf(more, 0)
	}
}

// previous returns the key of the claim before a claim, from the answer to before, or "".
func (q queue) previous(ctx context.Context, resp *pb.RangeResponse, revision int64) (string, error) {
	for {
		if all := q.among(resp.Kvs); len(all) > 0 {
			return all[0].key, nil
		}
		if !resp.More {
			return "", nil
		}
		created := resp.Kvs[len(resp.Kvs)-1].CreateRevision
		more, err := q.s.read(ctx, clientv3.OpGet(q.under, clientv3.WithPrefix(), descending, clientv3.WithKeysOnly(), clientv3.WithLimit(keysAtOnce),
			clientv3.WithMaxCreateRev(created-1), clientv3.WithRev(revision)))
		if err != nil {
			return "", err
		}
		resp = rangeOf(more, 0)
	}
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

// page is a part of a queue.
type page struct {
	claims   []entry
	more     bool
	revision int64 // of the first page
	last     int64 // create revision of its last key
}

// next selects the page after this one.
func (p page) next() clientv3.OpOption {
	return func(op *clientv3.Op) {
		clientv3.WithRev(p.revision)(op)
		clientv3.WithMinCreateRev(p.last + 1)(op)
	}
}

// page reads a page.
func (q queue) page(ctx context.Context, opts ...clientv3.OpOption) (page, error) {
	resp, err := q.s.read(ctx, clientv3.OpGet(q.under, append([]clientv3.OpOption{clientv3.WithPrefix(), ascending}, opts...)...))
	if err != nil {
		return page{}, err
	}
	r := rangeOf(resp, 0)
	p := page{claims: q.among(r.Kvs), more: r.More, revision: resp.Header.Revision}
	if len(r.Kvs) > 0 {
		p.last = r.Kvs[len(r.Kvs)-1].CreateRevision
	}
	return p, nil
}

func rangeOf(resp *clientv3.TxnResponse, i int) *pb.RangeResponse {
	return resp.Responses[i].GetResponseRange()
}
