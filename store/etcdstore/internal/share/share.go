// SPDX-License-Identifier: Apache-2.0

// Package share is what etcdstore shows to the other stores of its module, and to no other package.
package share

import (
	"encoding/binary"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Parts returns the client of an *etcdstore.Store and the keys of its namespace. Package etcdstore sets it.
var Parts func(store driver.Store) (*clientv3.Client, lock.Space)

// Lease makes the number of the lease from that of the session, so that an Open
// whose reply was lost finds its lease again.
func Lease(id driver.SessionID) int64 {
	n := int64(binary.BigEndian.Uint64(id[:8]) &^ (1 << 63))
	return max(n, 1) // 0 would let etcd choose
}
