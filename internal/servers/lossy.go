// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"bytes"
	"sync/atomic"
)

// LostReply is a filter of a Proxy that loses one reply: the first one, after Start, on the connection of
// a request that has the mark in it.
type LostReply struct {
	mark  []byte
	on    atomic.Bool
	asked atomic.Int64 // the connection, + 1
	over  atomic.Bool
}

// LoseReplyTo sets the filter of the proxy.
func (p *Proxy) LoseReplyTo(mark string) *LostReply {
	l := &LostReply{mark: []byte(mark)}
	p.Filter(l.filter)
	return l
}

// Start begins to look for the request.
func (l *LostReply) Start() { l.on.Store(true) }

// Done reports whether the reply was lost.
func (l *LostReply) Done() bool { return l.over.Load() }

func (l *LostReply) filter(conn int, toServer bool, data []byte) bool {
	if toServer && l.on.Load() && bytes.Contains(data, l.mark) {
		l.asked.CompareAndSwap(0, int64(conn)+1)
		return true
	}
	return toServer || l.asked.Load() != int64(conn)+1 || !l.over.CompareAndSwap(false, true)
}
