// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"fmt"
	"time"
)

// Op is an operation of a store or a session, as it is written in on(op, f).
type Op string

// The operations that can be bent: all methods of driver.Store and
// driver.Session but Caps and Shard, which do no I/O.
const (
	Open      Op = "open"
	KeepAlive Op = "keepalive"
	Attempt   Op = "attempt"
	Await     Op = "await"
	Withdraw  Op = "withdraw"
	Reclaim   Op = "reclaim"
	Close     Op = "close"
	Inspect   Op = "inspect"
	List      Op = "list"
	Break     Op = "break"
	SetLimit  Op = "setlimit"
)

var (
	allOps   = []Op{Open, KeepAlive, Attempt, Await, Withdraw, Reclaim, Close, Inspect, List, Break, SetLimit}
	namedOps = []Op{Attempt, Await, Withdraw, Reclaim, Inspect, Break, SetLimit}
)

// call is what conditions may look at: one call of one operation.
type call struct {
	op Op
	// names are the locks the call is about: none, one, or many for Reclaim.
	names []string
	// about distinguishes the calls of one operation that prob counts
	// separately: by lock, and by shard where the call is about a session,
	// because session ids are random and would make another choice in every
	// run. A Reclaim is counted by shard too, as the core may batch in any order.
	about string
	// index is the number of calls of the same op and about before this one.
	index int
	// since is the time from Wrap to the call.
	since time.Duration
}

// aboutLock returns a call about one lock.
func aboutLock(op Op, name string) *call {
	return &call{op: op, names: []string{name}, about: name}
}

// aboutShard returns a call about a session on a shard.
func aboutShard(op Op, shard string) *call { return &call{op: op, about: shard} }

// String names the call in error texts: attempt of ["orders/42"].
func (c *call) String() string {
	if len(c.names) == 0 {
		return string(c.op)
	}
	return fmt.Sprintf("%s of %q", c.op, c.names)
}
