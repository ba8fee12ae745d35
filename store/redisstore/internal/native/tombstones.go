// SPDX-License-Identifier: Apache-2.0

package native

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

// expired notes that the first tombstones, so many, have gone.
func (c *claims) expired(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tombstones = slices.Delete(c.tombstones, 0, n)
}

// expire drops, in the background, the tombstones of claims of which no call can arrive any more. Only this process knows
// the names of the locks, in which such a call may have left the claim. It drops all of them, in parts with pauses, as a
// sweep does: callers that give up make them at any rate, and most of all when the server is slow.
func (s *session) expire() {
	const longer = int64(time.Minute / time.Millisecond) // than the store keeps them, by its clock
	before := s.alive.earliest() - tombstoneKept.Milliseconds() - longer
	if len(s.claims.old(before, 1)) == 0 || !s.expiring.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.expiring.Store(false)
		for old := s.claims.old(before, maxClosed); len(old) > 0; old = s.claims.old(before, maxClosed) {
			if !s.sweeper.step(func(ctx context.Context) error { return s.dropTombstones(ctx, old) }) {
				return // the next keep-alive tries again
			}
			s.claims.expired(len(old))
		}
	}()
}

// dropTombstones drops some tombstones in the store.
func (s *session) dropTombstones(ctx context.Context, old []tombstone) error {
	var names, args []string
	for _, t := range old {
		names, args = append(names, t.name), append(args, strconv.FormatUint(t.seq, 10), t.name)
	}
	_, err := s.call(ctx, expireScript, names, args...)
	return err
}
