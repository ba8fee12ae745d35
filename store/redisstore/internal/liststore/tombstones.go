// SPDX-License-Identifier: Apache-2.0

package liststore

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// tombstone is a claim of which a mark may be in the store.
type tombstone struct {
	seq  uint64
	name string
	at   int64 // in ms of the server's clock
}

// tombstoneKept is how long the store keeps a mark at least (expired in lib.lua).
const tombstoneKept = time.Hour

// tombstoned notes that a claim may have a tombstone from now on.
func (c *claims) tombstoned(w driver.Withdrawal, now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tombstones = append(c.tombstones, tombstone{w.Seq, w.Name, now})
}

// old returns the tombstones before a time, at most so many.
func (c *claims) old(before int64, most int) []tombstone {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < min(len(c.tombstones), most) && c.tombstones[n].at < before {
		n++
	}
	return slices.Clone(c.tombstones[:n])
}

// expired notes that tombstones have gone.
func (c *claims) expired(gone []tombstone) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tombstones = slices.DeleteFunc(c.tombstones, func(t tombstone) bool { return slices.Contains(gone, t) })
}

// expire drops, in the background, the tombstones of claims of which no call can arrive any
// more. Only this process knows the names of the locks, in which such a call may have left the claim.
func (s *session) expire() {
	const longer = int64(time.Minute / time.Millisecond) // than the store keeps them, by its clock
	old := s.claims.old(s.alive.earliest()-tombstoneKept.Milliseconds()-longer, maxClosed)
	if len(old) == 0 || !s.expiring.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.expiring.Store(false)
		ctx, cancel := context.WithTimeout(s.ctx, s.ttl)
		defer cancel()
		var names, args []string
		for _, t := range old {
			names, args = append(names, t.name), append(args, strconv.FormatUint(t.seq, 10), t.name)
		}
		if _, err := s.call(ctx, expireScript, names, args...); err == nil {
			s.claims.expired(old)
		}
	}()
}
