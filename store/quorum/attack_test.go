// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
)

// away is a fault that loses everything for a time.
func away(from, to time.Duration) faultstore.Fault {
	return faultstore.During(from, to, faultstore.LoseRequest())
}

// TestAttackEmptyRestart: a client holds on b and c; b crashes and comes back
// empty; a second client must not win through a and b.
func TestAttackEmptyRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		first := r.process(map[int]faultstore.Fault{0: away(0, time.Hour)}, nil)
		held := r.lock("first", first, "x")
		if on := r.on("x", held.Token()); on != "b c" {
			t.Fatalf("the first client holds on %q, want b and c", on)
		}
		r.log("b crashes and comes back empty")
		r.stores[1].Reset()
		second := r.process(map[int]faultstore.Fault{2: away(0, time.Hour)}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		got := make(chan *fencelock.Lease, 1)
		go func() {
			l, err := second.Mutex("x").Lock(ctx)
			r.log("second: lease %v, error %v", l != nil, err)
			got <- l
		}()
		time.Sleep(20 * time.Second) // two of the longest TTLs: b's grace is over
		if !held.Valid() {
			t.Fatalf("the first client lost its lease: %v", held.Err())
		}
		r.log("20 s later the first client still holds, on %s", r.on("x", held.Token()))
		must.OK(t, held.Unlock(t.Context()))
		r.log("first unlocks")
		l := <-got
		if l == nil {
			t.Fatal("the second client did not get the lock after the first gave it back")
		}
		r.log("second holds with token %v", l.Token())
		if l.Token() <= held.Token() {
			t.Fatalf("token %v came after %v", l.Token(), held.Token())
		}
	})
}

// TestAttackAllRestartEmpty: every node loses its data at once. Grace lets the holder
// keep its lease, no other client acquires the lock, and tokens rise.
func TestAttackAllRestartEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 5, grace())
		first, second := r.process(nil, nil), r.process(nil, nil)
		held := r.lock("first", first, "x")
		r.log("all nodes crash and come back empty")
		r.reset()
		_, err := second.Mutex("x").TryLock(t.Context())
		if r.log("second tries: %v", err); !errors.Is(err, fencelock.ErrGrace) {
			t.Fatalf("the second client got %v, want a grace period", err)
		}
		time.Sleep(9 * time.Second)
		if !held.Valid() || r.taken("x") != 5 {
			t.Fatalf("the first client's lease: %v, on %d nodes", held.Err(), r.taken("x"))
		}
		r.log("9 s later the first client holds, on %s", r.on("x", held.Token()))
		must.OK(t, held.Unlock(t.Context()))
		if l := r.lock("second", second, "x"); l.Token() <= held.Token() {
			t.Fatalf("token %v came after %v", l.Token(), held.Token())
		}
	})
}

// TestAttackStalledMinority is S1 of other libraries: nodes that do not answer
// during a renewal must not cost the lease.
func TestAttackStalledMinority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		c := r.process(map[int]faultstore.Fault{1: away(time.Second, time.Hour)}, &fencelock.Options{TTL: time.Second})
		held := r.lock("holder", c, "x")
		time.Sleep(time.Second)
		r.log("b stalls")
		time.Sleep(time.Minute)
		if !held.Valid() {
			t.Fatalf("the lease was lost with one of three nodes stalled: %v", held.Err())
		}
		r.log("a minute later it holds, on %s", r.on("x", held.Token()))
		if err := held.Unlock(t.Context()); err != nil {
			t.Fatalf("unlock: %v", err)
		}
	})
}

// TestAttackRevival is S4 of other libraries: a lease that ended on the nodes must not be
// revived by a renewal of its holder after another client held and released the lock.
func TestAttackRevival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		first := r.process(nil, nil)
		held := r.lock("first", first, "x")
		r.log("the clocks of all nodes jump by 20 s: the lease has ended there, and the first does not know")
		for _, s := range r.stores {
			s.StepClock(20 * time.Second)
		}
		second := r.process(nil, nil)
		l := r.lock("second", second, "x")
		must.OK(t, l.Unlock(t.Context()))
		r.log("second unlocks; the lock is free")
		<-held.Context().Done()
		r.log("first: %v", held.Err())
		if !errors.Is(held.Err(), fencelock.ErrLost) {
			t.Fatalf("the first client has %v, want lost", held.Err())
		}
		// A node that was being joined when the end was found is left again, at the next look at what is owed to it.
		for range 50 {
			if n := r.taken("x"); n > 1 {
				t.Fatalf("%d nodes have the lock again: %s", n, r.holders("x"))
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := r.taken("x"); n != 0 {
			t.Fatalf("%d nodes still have the lock: %s", n, r.holders("x"))
		}
		if l.Token() <= held.Token() {
			t.Fatalf("token %v came after %v", l.Token(), held.Token())
		}
	})
}

// TestAttackThreeWaySplit: three clients that each win one of three nodes must not
// repeat that forever.
func TestAttackThreeWaySplit(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 3, grace())
			holder := r.process(nil, nil)
			held := r.lock("holder", holder, "x")
			// Each client reaches a different node first, so the queues have three orders.
			done := make(chan fencelock.Token, 3)
			for i := range 3 {
				faults := map[int]faultstore.Fault{}
				for n := range 3 {
					d := time.Duration((n-i+3)%3)*5*time.Millisecond + time.Duration(seed)*time.Microsecond
					faults[n] = faultstore.On(faultstore.Attempt, faultstore.Delay(d+time.Microsecond, 0))
				}
				c := r.process(faults, nil)
				go func() {
					l, err := c.Mutex("x").Lock(context.Background())
					if err != nil {
						t.Errorf("client %d: %v", i, err)
						done <- 0
						return
					}
					r.log("client %d holds with token %v", i, l.Token())
					time.Sleep(10 * time.Millisecond)
					done <- l.Token()
					_ = l.Unlock(context.Background())
				}()
			}
			time.Sleep(time.Second)
			r.log("holder unlocks")
			began := time.Now()
			must.OK(t, held.Unlock(t.Context()))
			last := held.Token()
			for range 3 {
				token := <-done
				if token <= last {
					t.Fatalf("token %v came after %v", token, last)
				}
				last = token
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("three clients needed %v to hold one after the other", took)
			}
		})
	}
}
