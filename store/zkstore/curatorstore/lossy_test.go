// SPDX-License-Identifier: Apache-2.0

package curatorstore_test

import (
	"bytes"
	"sync/atomic"
)

// lossy loses the first reply on the connection of a request that has the mark in it.
type lossy struct {
	mark  []byte
	asked atomic.Int64 // the connection, + 1
	over  atomic.Bool
}

func dropReplyTo(mark string) *lossy { return &lossy{mark: []byte(mark)} }

// filter is for servers.Proxy.
func (l *lossy) filter(conn int, toServer bool, data []byte) bool {
	if toServer && bytes.Contains(data, l.mark) {
		l.asked.CompareAndSwap(0, int64(conn)+1)
		return true
	}
	return toServer || l.asked.Load() != int64(conn)+1 || !l.over.CompareAndSwap(false, true)
}

func (l *lossy) done() bool { return l.over.Load() }
