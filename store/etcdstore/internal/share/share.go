// SPDX-License-Identifier: Apache-2.0

// Package share is what etcdstore shows to the other stores of its module, and to no other package.
package share

import (
	"encoding/binary"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Parts are the parts of an *etcdstore.Store.
type Parts struct {
	Client *clientv3.Client
	// KV and Leases are those of the client as it was when the store was made. A call that a member refuses because it
	// serves nobody now goes to the next one.
	KV        clientv3.KV
	Leases    pb.LeaseClient
	Keys      lock.Space
	Revisions Revisions
	// Drop drops the value of a session whose Open failed after that of the base store.
	Drop func(se driver.Session)
}

// Revisions reports whether the cluster that answers is the one that answered before.
type Revisions interface {
	// High is the revision that an answer to a call that is sent now must have reached.
	High() int64
	// See takes the header of a linearizable answer to a call that was sent when high was the highest revision seen.
	See(h *pb.ResponseHeader, high int64) error
}

// PartsOf returns the parts of an *etcdstore.Store. Package etcdstore sets it.
var PartsOf func(store driver.Store) Parts

// Lease makes the number of the lease from that of the session, so that an Open
// whose reply was lost finds its lease again.
func Lease(id driver.SessionID) int64 {
	n := int64(binary.BigEndian.Uint64(id[:8]) &^ (1 << 63))
	return max(n, 1) // 0 would let etcd choose
}
