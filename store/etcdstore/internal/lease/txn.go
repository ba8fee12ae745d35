// SPDX-License-Identifier: Apache-2.0

package lease

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

// Commit sends one transaction, perhaps of a session, which knows its cluster. A cluster that was restored to older data may
// have the same id, but not the revision that was seen before.
func (c *Cluster) Commit(ctx context.Context, se *Session, ifs []*pb.Compare, then, otherwise []*pb.RequestOp) (*pb.TxnResponse, error) {
	if err := Before(ctx); err != nil {
		return nil, err
	}
	high := c.revisions.high()
	resp, err := c.KV.Txn(ctx, &pb.TxnRequest{Compare: ifs, Success: then, Failure: otherwise}, callOptions...)
	if err != nil {
		return nil, clientv3.ContextError(ctx, err)
	}
	if se != nil && resp.Header.ClusterId != se.cluster {
		return nil, fmt.Errorf("cluster %x answers, the session was opened on %x: %w", resp.Header.ClusterId, se.cluster, driver.ErrReset)
	}
	return resp, c.revisions.see(resp.Header, high)
}

// NoLease is for a key that stays.
const NoLease = 0

// Put writes a key that goes with a lease.
func Put(key string, value []byte, lease int64) *pb.RequestOp {
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

// Remove deletes a key.
func Remove(key string) *pb.RequestOp {
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

// Nested is a transaction in a transaction.
func Nested(ifs []*pb.Compare, then ...*pb.RequestOp) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Compare: ifs, Success: then}}}
}

// Get reads a key.
func Get(key string) *pb.RequestOp { return Read(&pb.RangeRequest{Key: []byte(key)}) }

// Head reads a key without its value.
func Head(key string) *pb.RequestOp {
	return Read(&pb.RangeRequest{Key: []byte(key), KeysOnly: true})
}

// Count counts a key: 0 or 1.
func Count(key string) *pb.RequestOp {
	return Read(&pb.RangeRequest{Key: []byte(key), CountOnly: true})
}

// Within reads the keys with a prefix, as far as r does not say otherwise.
func Within(prefix string, r *pb.RangeRequest) *pb.RequestOp {
	r.Key, r.RangeEnd = []byte(prefix), lock.End(prefix)
	return Read(r)
}

// Read reads a range.
func Read(r *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

// Created compares the revision at which a key, or each key before end, was created. It is 0
// for a key that does not exist; a range without keys passes.
func Created(key string, end []byte, by pb.Compare_CompareResult, revision int64) *pb.Compare {
	var c struct {
		cmp pb.Compare
		to  pb.Compare_CreateRevision
	}
	p := &c
	p.to.CreateRevision = revision
	p.cmp.Key, p.cmp.RangeEnd, p.cmp.Result, p.cmp.Target, p.cmp.TargetUnion = []byte(key), end, by, pb.Compare_CREATE, &p.to
	return &p.cmp
}

// Modified compares the revision at which a key was written; 0 is that of a key that does not
// exist.
func Modified(key string, revision int64) *pb.Compare {
	var c struct {
		cmp pb.Compare
		to  pb.Compare_ModRevision
	}
	p := &c
	p.to.ModRevision = revision
	p.cmp.Key, p.cmp.Result, p.cmp.Target, p.cmp.TargetUnion = []byte(key), pb.Compare_EQUAL, pb.Compare_MOD, &p.to
	return &p.cmp
}

// NothingSince compares that no key with the prefix was created after a revision.
// For revision 0 it compares that no such key exists.
func NothingSince(prefix string, revision int64) *pb.Compare {
	return Created(prefix, lock.End(prefix), pb.Compare_LESS, revision+1)
}

// Absent compares that a key does not exist.
func Absent(key string) *pb.Compare { return CreatedAt(key, 0) }

// CreatedAt compares the revision at which a key was created; 0 is that of a key that does not exist.
func CreatedAt(key string, revision int64) *pb.Compare {
	return Created(key, nil, pb.Compare_EQUAL, revision)
}

// There compares that a key exists.
func There(key string) *pb.Compare { return Created(key, nil, pb.Compare_GREATER, 0) }
