// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// The node that keeps the bucket dies while its replica lags.
func TestClusterFailoverKeepsTheLease(t *testing.T) {
	everywhere(t, func(t *testing.T, flavor redistest.Flavor, lib library) {
		cluster := flavor.StartCluster(t, redistest.Soon)
		loss{
			lib: lib, to: login{Nodes: cluster.Addrs()},
			ttl: 12 * time.Second, // a failover takes three, on a good day
			prepare: func(l *timeline) func() {
				_, owner := cluster.Find("grace*")
				cluster.PauseReplication(owner)
				l.note("the replica lags from now on")
				return func() { cluster.Kill(owner) }
			},
		}.survives(t)
	})
}

// A slot moves while a lock in it is held and waited for; then its new master is replaced. The
// holder keeps its lease all the time. New locks are not granted while the slot moves, because
// the server has only a part of the keys, and are granted when it has moved.
func TestSlotMoves(t *testing.T) {
	everywhere(t, slotMoves)
}

func slotMoves(t *testing.T, flavor redistest.Flavor, lib library) {
	l, cluster := newTimeline(t), flavor.StartCluster(t, redistest.Soon)
	opts, ttl := native.Options{Namespace: "moving", Buckets: 1}, 10*time.Second
	come := func(name string) *party {
		return join(t, l, name, lib.open(t, login{Nodes: cluster.Addrs()}, &opts), fencelock.Options{TTL: ttl})
	}
	holder, other := come("holder"), come("other")
	held := holder.lock("x")
	waiter := other.start("x")
	other.await(fencelock.LeaseWaiting, 1)

	session, err := anOpen(t, lib.open(t, login{Nodes: cluster.Addrs()}, &opts).Store)
	must.OK(t, err)
	keep := func() bool { _, err := session.KeepAlive(t.Context()); return err == nil }
	redistest.WaitFor(t, "the session is kept alive", keep)
	var late *pending
	slot, from := cluster.Find("moving*")
	to := cluster.MoveSlot(slot, from, func(stage string) {
		l.note("the slot: %s", stage)
		if stage == redistest.Begun {
			// Without tickets, as in a grace period, the server has only a part of the bucket.
			must.OK(t, from.Do("DEL", bucketOf("moving")+":t").Err())
			redistest.WaitFor(t, "the session is kept alive while the slot moves", keep)
			late = other.start("y")
		}
	})
	l.note("the slot is the new master's")
	resumed(1, holder, other)
	wantHeld(t, holder, held)
	unlock(t, late.wait(t, ttl*11/10+slack))
	unlock(t, held)
	next := waiter.wait(t, ttl*11/10+slack)
	if next.Token() <= held.Token() {
		t.Errorf("token %v after %v", next.Token(), held.Token())
	}

	again := holder.start("x")
	holder.await(fencelock.LeaseWaiting, 1)
	cluster.Failover(to)
	l.note("the replica of the new master took over, on request")
	resumed(2, holder, other)
	wantHeld(t, other, next)
	unlock(t, next)
	if last := again.wait(t, ttl*11/10+slack); last.Token() <= next.Token() {
		t.Errorf("token %v after %v", last.Token(), next.Token())
	}
}

// With grace a slot that moves costs one: it may have lost something on the way, for
// all that the new master knows.
func TestSlotMovesWithGrace(t *testing.T) {
	paired(t, func(t *testing.T, flavor redistest.Flavor, lib library) {
		cluster := flavor.StartCluster(t, redistest.Soon)
		loss{
			lib: lib, to: login{Nodes: cluster.Addrs()},
			ttl: 8 * time.Second,
			prepare: func(*timeline) func() {
				slot, from := cluster.Find("grace*")
				return func() { cluster.MoveSlot(slot, from, nil) }
			},
		}.survives(t)
	})
}

// resumed waits until the parties have found themselves on another server for
// the nth time: they cannot trust its memory before they have compared it with
// theirs.
func resumed(n int, ps ...*party) {
	for _, p := range ps {
		p.t.Helper()
		p.await(fencelock.SessionResumed, n)
	}
}
