// SPDX-License-Identifier: Apache-2.0

package fleetsim

import "time"

// kind is what a process does.
type kind uint8

const (
	open    kind = iota // a session
	renew               // it
	lock                // and then unlock
	unlock              // after Hold
	connect             // asks whether one of its connections is well
)

// event is a call that a process makes.
type event struct {
	at       time.Duration
	of       int32 // the session, or the process
	master   int16 // of an unlock, of a connection, or of a lock that failed before
	failures int16
	kind     kind
	handoff  bool // of an unlock
}

// events is a heap of events: container/heap would allocate for each of them.
type events []event

func (q *events) push(e event) {
	*q = append(*q, e)
	all := *q
	for i := len(all) - 1; i > 0; {
		up := (i - 1) / 2
		if all[up].at <= all[i].at {
			return
		}
		all[up], all[i] = all[i], all[up]
		i = up
	}
}

func (q *events) pop() (event, bool) {
	all := *q
	if len(all) == 0 {
		return event{}, false
	}
	first, last := all[0], len(all)-1
	all[0] = all[last]
	*q = all[:last]
	all = all[:last]
	for i := 0; ; {
		least := i
		for _, down := range []int{2*i + 1, 2*i + 2} {
			if down < last && all[down].at < all[least].at {
				least = down
			}
		}
		if least == i {
			return first, true
		}
		all[least], all[i] = all[i], all[least]
		i = least
	}
}
