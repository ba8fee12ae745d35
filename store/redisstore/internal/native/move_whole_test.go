// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// permit is a semaphore with one permit.
func (p *party) permit(name string, opts ...fencelock.LockOption) func(context.Context) (*fencelock.Lease, error) {
	s := p.Semaphore(name, 1, opts...)
	return func(ctx context.Context) (*fencelock.Lease, error) { return s.Acquire(ctx, 1) }
}

// TestSharedLocksAreReleasedWhileASlotMoves: a server checks each key again when a script uses it, and while it
// moves a slot it rejects keys that are not there: also the list of a lock, once the script has removed its last
// element. So a script must not run at all then. The lock is passed on when the move is over, or was given up, to one
// process only, and a permit that MinHold keeps stays taken.
func TestSharedLocksAreReleasedWhileASlotMoves(t *testing.T) {
	t.Parallel()
	for name, finish := range map[string]bool{"given up": false, "finished": true} {
		t.Run(name, func(t *testing.T) {
			paired(t, func(t *testing.T, flavor redistest.Flavor, lib library) { releasedInAMove(t, flavor, lib, finish) })
		})
	}
}

func releasedInAMove(t *testing.T, flavor redistest.Flavor, lib library, finish bool) {
	l, cluster := newTimeline(t), flavor.StartCluster(t, redistest.Never)
	// With grace a move that was finished costs a grace period, and one that was given up does not.
	opts := native.Options{Namespace: "shared", Buckets: 1, Grace: !finish, MaxTTL: 6 * time.Second}
	come := func(name string) *party {
		return join(t, l, name, lib.open(t, login{Nodes: cluster.Addrs()}, &opts), fencelock.Options{TTL: opts.MaxTTL})
	}
	holder, next, third := come("holder"), come("next"), come("third")
	held := []*fencelock.Lease{
		holder.begin(holder.RWMutex("rw").RLock).wait(t, time.Minute),
		holder.begin(holder.permit("permit")).wait(t, time.Minute),
		holder.begin(holder.permit("kept", fencelock.MinHold(time.Minute))).wait(t, time.Minute),
	}
	unlock(t, third.begin(third.permit("marked", fencelock.MinHold(time.Minute))).wait(t, time.Minute)) // all keys of a bucket exist
	waiting := []*pending{next.begin(next.RWMutex("rw").Lock), next.begin(next.permit("permit"))}
	next.await(fencelock.LeaseWaiting, len(waiting))

	slot, from := cluster.Find(opts.Namespace + "*")
	to := cluster.BeginMove(slot, from)
	for _, lease := range held {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		l.note("unlock of %s while the slot moves: %v", lease.Name(), lease.Unlock(ctx))
		cancel()
	}
	if finish {
		cluster.FinishMove(slot, from, to, func(string) {})
		resumed(1, third)
	} else {
		cluster.AbortMove(slot, from, to)
	}
	l.note("the move is over")
	tries := []func(context.Context) (*fencelock.Lease, error){
		third.RWMutex("rw").TryLock,
		func(ctx context.Context) (*fencelock.Lease, error) {
			return third.Semaphore("permit", 1).TryAcquire(ctx, 1)
		},
	}
	for i, w := range waiting {
		if !finish { // after a reset a claim that waits comes again, and may be overtaken
			if lease, err := tries[i](t.Context()); !errors.Is(err, fencelock.ErrBusy) {
				t.Fatalf("before a claim that waits: got %v, %v", lease, err)
			}
		}
		lease := w.wait(t, time.Minute)
		if other, err := tries[i](t.Context()); !errors.Is(err, fencelock.ErrBusy) {
			t.Errorf("beside the holder of %s: got %v, %v", lease.Name(), other, err)
		}
		if !lease.Valid() {
			t.Errorf("%s is lost: %v", lease.Name(), lease.Err())
		}
	}
	if lease, err := third.Semaphore("kept", 1).TryAcquire(t.Context(), 1); !errors.Is(err, fencelock.ErrBusy) {
		t.Errorf("a permit that MinHold keeps: got %v, %v", lease, err)
	}
}

// TestBatchesRunWholeWhileASlotMoves: the scripts of batches take a lock's list apart to see whose it is. While the slot
// moves they could not put it back, so they must not run.
func TestBatchesRunWholeWhileASlotMoves(t *testing.T) {
	t.Parallel()
	for name, floor := range map[string]driver.Token{"many": 0, "votes": driver.TokenStep} {
		t.Run(name, func(t *testing.T) {
			paired(t, func(t *testing.T, flavor redistest.Flavor, lib library) { batchInAMove(t, flavor, lib, floor) })
		})
	}
}

func batchInAMove(t *testing.T, flavor redistest.Flavor, lib library, floor driver.Token) {
	cluster := flavor.StartCluster(t, redistest.Never)
	opts := native.Options{Namespace: lists + "Whole" + batched, Buckets: 1}
	store := lib.open(t, login{Nodes: cluster.Addrs()}, &opts)
	open := func() driver.Session {
		s, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: store.Shard("x"), ID: driver.NewSessionID(), TTL: time.Minute})
		must.OK(t, err)
		return s
	}
	take := func(s driver.Session, seq uint64) driver.Token {
		t.Helper()
		out, err := s.Attempt(t.Context(), &driver.Claim{Seq: seq, Name: "x", Queue: floor == 0, Floor: floor, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
		if err != nil || out.State != driver.Granted {
			t.Fatalf("got %v, %v", out.State, err)
		}
		return out.Token
	}
	first, second := open(), open()
	take(first, 1) // votes begin with a script
	if _, err := first.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Break(t.Context(), "x", take(first, 2)); err != nil {
		t.Fatal(err)
	}
	token := take(second, 1)

	slot, from := cluster.Find(opts.Namespace + "*")
	to := cluster.BeginMove(slot, from)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	found, err := first.Withdraw(ctx, driver.Withdrawal{Seq: 2, Name: "x"})
	cancel()
	if err == nil {
		t.Errorf("a withdrawal while the slot moves: %v", found)
	}
	cluster.AbortMove(slot, from, to)
	if st, err := store.Inspect(t.Context(), "x"); err != nil || len(st.Holders) != 1 || st.Holders[0].Token != token {
		t.Errorf("the lock is held with token %v, the store says %+v, %v", token, st.Holders, err)
	}
}
