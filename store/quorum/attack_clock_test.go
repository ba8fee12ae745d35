// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/quorum"
)

// TestAttackClockJump is Kleppmann's: the clock of one of the nodes jumps ahead, so
// that it ends a session early, and a second client asks at that moment.
func TestAttackClockJump(t *testing.T) {
	t.Run("far, with a node to spare", func(t *testing.T) { synctest.Test(t, jumpFar) })
	t.Run("with a node to spare", func(t *testing.T) { synctest.Test(t, jumpRepaired) })
	t.Run("with a bare majority", func(t *testing.T) { synctest.Test(t, jumpBare) })
}

// jumpFar: a and b keep the second client out; c does not count any more, and an
// operator hears of it.
func jumpFar(t *testing.T) {
	r := newRig(t, 3, grace())
	first, second := r.process(nil, nil), r.process(nil, nil)
	held := r.lock("first", first, "x")
	time.Sleep(time.Millisecond) // all three have it
	r.log("c's clock jumps by an hour")
	r.stores[2].StepClock(time.Hour)
	if _, err := second.Mutex("x").TryLock(t.Context()); !errors.Is(err, fencelock.ErrBusy) {
		t.Fatalf("the second client got %v, want busy", err)
	}
	r.log("second is refused by a and b")
	time.Sleep(8 * time.Second)
	if !held.Valid() {
		t.Fatalf("the first client lost its lease: %v", held.Err())
	}
	if !r.alarmed(quorum.ClocksApart) || !r.alarmed(quorum.NodeNotCounted) {
		t.Errorf("got alarms %v, want one about the clocks and one about c", r.alarms)
	}
}

// jumpRepaired: the jump is longer than the TTL and short enough for c to count. The
// lease is put on c again, so that then b may fail.
func jumpRepaired(t *testing.T) {
	r := newRig(t, 3, grace())
	brief := &fencelock.Options{TTL: 3 * time.Second}
	first := r.process(map[int]faultstore.Fault{1: away(20*time.Second, time.Hour)}, brief)
	second := r.process(nil, brief)
	held := r.lock("first", first, "x")
	time.Sleep(time.Millisecond) // all three have it
	r.log("c's clock jumps by 4 s; the TTL is 3 s")
	r.stores[2].StepClock(4 * time.Second)
	if _, err := second.Mutex("x").TryLock(t.Context()); !errors.Is(err, fencelock.ErrBusy) {
		t.Fatalf("the second client got %v, want busy", err)
	}
	if on := r.on("x", held.Token()); on != "a b" {
		t.Fatalf("the lease is on %q, want the jump to have ended it on c", on)
	}
	time.Sleep(5 * time.Second)
	r.log("5 s later: %s", r.holders("x"))
	if n := r.taken("x"); n != 3 {
		t.Errorf("the lease is on %d nodes, want it on c again: %s", n, r.holders("x"))
	}
	time.Sleep(25 * time.Second)
	r.log("b has been away for 10 s: valid %v", held.Valid())
	if !held.Valid() {
		t.Errorf("c was not counted when b went away: %v", held.Err())
	}
}

// jumpBare: the first client has b and c only. After c's jump the second client wins
// through a and c while the first still believes that it holds the lock. This cannot be
// prevented without clocks. The second client has the higher token, and the first is
// notified by its next renewal.
func jumpBare(t *testing.T) {
	r := newRig(t, 3, grace())
	r.log("a is away for the first client, b for the second")
	first := r.process(map[int]faultstore.Fault{0: away(0, time.Hour)}, nil)
	second := r.process(map[int]faultstore.Fault{1: away(0, time.Hour)}, nil)
	held := r.lock("first", first, "x")
	r.log("c's clock jumps by 11 s; the TTL is 10 s")
	r.stores[2].StepClock(11 * time.Second)
	l, err := second.Mutex("x").TryLock(t.Context())
	r.log("second tries: lease %v, error %v; first valid %v", l != nil, err, held.Valid())
	if err != nil {
		t.Fatalf("the attack did not work: %v", err)
	}
	if !held.Valid() {
		t.Fatalf("the attack came too late: %v", held.Err())
	}
	if l.Token() <= held.Token() {
		t.Errorf("token %v came after %v", l.Token(), held.Token())
	}
	select {
	case <-held.Context().Done():
	case <-time.After(5 * time.Second): // half of the TTL; a renewal is due after a third
		t.Fatal("5 s later the first client was not notified")
	}
	r.log("first: %v", held.Err())
	if !errors.Is(held.Err(), fencelock.ErrLost) || !l.Valid() {
		t.Errorf("the first client has %v, want lost; the second %v", held.Err(), l.Err())
	}
}
