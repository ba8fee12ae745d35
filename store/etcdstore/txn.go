// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"fmt"
	"math"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// Transactions are made of the messages of the protocol. clientv3.Op and clientv3.Cmp were
// rejected: they copy each comparison three times, by reflection.

// callOptions are those that clientv3 has for its own transactions.
var callOptions = []grpc.CallOption{grpc.WaitForReady(true), grpc.MaxCallSendMsgSize(2 << 20), grpc.MaxCallRecvMsgSize(math.MaxInt32)}

// commit sends one transaction, perhaps of a session, which knows its cluster.
func (s *Store) commit(ctx context.Context, se *session, ifs []*pb.Compare, then, otherwise []*pb.RequestOp) (*pb.TxnResponse, error) {
	if err := before(ctx); err != nil {
		return nil, err
	}
	high := s.revisions.High()
	resp, err := s.kv.Txn(ctx, &pb.TxnRequest{Compare: ifs, Success: then, Failure: otherwise}, callOptions...)
	if err != nil {
		return nil, clientv3.ContextError(ctx, err)
	}
	if se != nil && resp.Header.ClusterId != se.cluster {
		return nil, fmt.Errorf("cluster %x answers, the session was opened on %x: %w", resp.Header.ClusterId, se.cluster, driver.ErrReset)
	}
	return resp, s.revisions.See(resp.Header, high)
}

// noLease is for a key that stays.
const noLease = 0

// put writes a key that goes with a lease.
func put(key string, value []byte, lease int64) *pb.RequestOp {
	var o struct {
		op  pb.RequestOp
		of  pb.RequestOp_RequestPut
		put pb.PutRequest
	}
	p := &o // the parts are one allocation
	p.put.Key, p.put.Value, p.put.Lease = []byte(key), value, lease
	p.of.RequestPut = &p.put
	p.op.Request = &p.of
	return &p.op
}

// remove deletes a key.
func remove(key string) *pb.RequestOp {
	var o struct {
		op  pb.RequestOp
		of  pb.RequestOp_RequestDeleteRange
		del pb.DeleteRangeRequest
	}
	p := &o
	p.del.Key = []byte(key)
	p.of.RequestDeleteRange = &p.del
	p.op.Request = &p.of
	return &p.op
}

// nested is a transaction in a transaction.
func nested(ifs []*pb.Compare, then ...*pb.RequestOp) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Compare: ifs, Success: then}}}
}

// get reads a key.
func get(key string) *pb.RequestOp { return read(&pb.RangeRequest{Key: []byte(key)}) }

// count counts a key: 0 or 1.
func count(key string) *pb.RequestOp {
	return read(&pb.RangeRequest{Key: []byte(key), CountOnly: true})
}

// within reads the keys with a prefix, as far as r does not say otherwise.
func within(prefix string, r *pb.RangeRequest) *pb.RequestOp {
	r.Key, r.RangeEnd = []byte(prefix), lock.End(prefix)
	return read(r)
}

func read(r *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

// created compares the revision at which a key, or each key before end, was created. It is 0
// for a key that does not exist; a range without keys passes.
func created(key string, end []byte, by pb.Compare_CompareResult, revision int64) *pb.Compare {
	var c struct {
		cmp pb.Compare
		to  pb.Compare_CreateRevision
	}
	p := &c
	p.to.CreateRevision = revision
	p.cmp.Key, p.cmp.RangeEnd, p.cmp.Result, p.cmp.Target, p.cmp.TargetUnion = []byte(key), end, by, pb.Compare_CREATE, &p.to
	return &p.cmp
}

// modified compares the revision at which a key was written; 0 is that of a key that does not
// exist.
func modified(key string, revision int64) *pb.Compare {
	var c struct {
		cmp pb.Compare
		to  pb.Compare_ModRevision
	}
	p := &c
	p.to.ModRevision = revision
	p.cmp.Key, p.cmp.Result, p.cmp.Target, p.cmp.TargetUnion = []byte(key), pb.Compare_EQUAL, pb.Compare_MOD, &p.to
	return &p.cmp
}

// unchanged compares a key with how it was seen. A guess knows only that it is
// there.
func unchanged(e *lock.Entry) *pb.Compare {
	if e.Mod == 0 {
		return there(e.Key)
	}
	return modified(e.Key, e.Mod)
}

// nothingSince compares that no key with the prefix was created after a revision.
// For revision 0 it compares that no such key exists.
func nothingSince(prefix string, revision int64) *pb.Compare {
	return created(prefix, lock.End(prefix), pb.Compare_LESS, revision+1)
}

func absent(key string) *pb.Compare { return created(key, nil, pb.Compare_EQUAL, 0) }

func there(key string) *pb.Compare { return created(key, nil, pb.Compare_GREATER, 0) }
