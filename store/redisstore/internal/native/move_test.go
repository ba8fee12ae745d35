// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestSlotMovesSlowly: the keys of a bucket are on two servers for longer than a TTL. The
// holder keeps its lock, and what waits goes on when the slot has moved.
func TestSlotMovesSlowly(t *testing.T) {
	paired(t, func(t *testing.T, flavor redistest.Flavor, lib library) {
		l, cluster := newTimeline(t), flavor.StartCluster(t, redistest.Never)
		opts, ttl := native.Options{Namespace: lists + "Moving" + lazy, Buckets: 1}, 6*time.Second
		come := func(name string) *party {
			return join(t, l, name, lib.open(t, login{Nodes: cluster.Addrs()}, &opts), fencelock.Options{TTL: ttl})
		}
		holder, other := come("holder"), come("other")
		held := holder.lock("x")
		waiter := other.start("x")
		other.await(fencelock.LeaseWaiting, 1)
		slot, from := cluster.Find(opts.Namespace + "*")
		var free *pending
		halves := 0
		cluster.MoveSlot(slot, from, func(stage string) {
			l.note("the slot: %s", stage)
			if stage != redistest.Half {
				return
			}
			halves++
			free = other.start("y")
			time.Sleep(ttl * 3 / 2)
			if !held.Valid() {
				t.Errorf("the lock is lost: %v", held.Err())
			}
		})
		if halves != 1 {
			t.Fatalf("the keys were apart %d times", halves)
		}
		resumed(1, holder, other)
		unlock(t, free.wait(t, time.Minute))
		wantHeld(t, holder, held)
		unlock(t, held)
		if next := waiter.wait(t, time.Minute); next.Token() <= held.Token() {
			t.Errorf("token %v after %v", next.Token(), held.Token())
		}
		for _, p := range []*party{holder, other} {
			p.never(fencelock.SessionLost)
		}
	})
}
