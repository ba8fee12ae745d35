// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
)

// TestPutBackIsRepeated: a node loses its last second of data, in which a lock was
// released, and the message that would restore the correct state is lost too. The message
// is sent again: otherwise the session would keep the lock there forever.
func TestPutBackIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		// The first Reclaim on b is that of the marker.
		lost := faultstore.On(faultstore.Reclaim, faultstore.Nth(2, faultstore.LoseRequest()))
		c := r.process(map[int]faultstore.Fault{1: lost}, nil)
		y, x := r.lock("c", c, "y"), r.lock("c", c, "x")
		time.Sleep(time.Second)
		snap := r.stores[1].Snapshot()
		must.OK(t, y.Unlock(t.Context()))
		r.log("c unlocks y")
		time.Sleep(time.Second)
		r.log("b is set back by a second")
		r.stores[1].Restore(snap)
		if n := r.taken("y"); n != 1 {
			t.Fatalf("y is on %d nodes, want it on b again", n)
		}
		time.Sleep(20 * time.Second)
		r.log("20 s later: y %q, x %q", r.holders("y"), r.holders("x"))
		if n := r.taken("y"); n != 0 {
			t.Errorf("y was given back and is on %d nodes: %s", n, r.holders("y"))
		}
		if on := r.on("x", x.Token()); on != "a b c" || !x.Valid() {
			t.Errorf("x is on %q, valid %v; want it on a b c", on, x.Valid())
		}
	})
}

// TestNodeResetTwiceIsPutBack: a node loses its data again before the lock was put back there.
// The lock is put back in the grace period that follows.
func TestNodeResetTwiceIsPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		lost := faultstore.On(faultstore.Reclaim, faultstore.Name("x", faultstore.Nth(1, faultstore.LoseRequest())))
		x := r.lock("c", r.process(map[int]faultstore.Fault{2: lost}, nil), "x")
		time.Sleep(time.Second)
		for _, keepAlives := range []time.Duration{2, 3} { // the first finds out, the second reopens
			r.log("c loses its data; %s", r.holders("x"))
			r.stores[2].Reset()
			time.Sleep(keepAlives * 2800 * time.Millisecond)
		}
		if on := r.on("x", x.Token()); on != "a b c" || !x.Valid() {
			t.Errorf("x is on %q, valid %v; want it on a b c", on, x.Valid())
		}
	})
}
