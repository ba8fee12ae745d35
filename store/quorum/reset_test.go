// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
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

// TestMarkerIsReclaimedAgain: a node loses its data, and the first call that puts something back there, our marker,
// fails. It is repeated with the next keep-alive, so the node counts in its grace period, and another can be spared.
func TestMarkerIsReclaimedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		c := r.process(map[int]faultstore.Fault{
			0: markerRefused(),
			1: away(4*time.Second, time.Hour),
		}, &fencelock.Options{TTL: 3 * time.Second}) // less than the grace period
		x := r.lock("holder", c, "x")
		r.log("a loses its data")
		r.stores[0].Reset()
		time.Sleep(20 * time.Second)
		if !x.Valid() {
			t.Errorf("the lease was lost with two of three nodes well: %v", x.Err())
		}
	})
}

// markerRefused fails the first call that puts something back on node a, the Reclaim of our marker.
func markerRefused() faultstore.Fault {
	return faultstore.On(faultstore.Reclaim, faultstore.Nth(1, faultstore.Refuse()))
}

// TestLeaseIsReclaimedWithoutTheMarker: all nodes lose their data, and x was on a and b alone. On a the marker cannot be put
// back at first; x is all the same, with the Reclaim of the core, which asks once.
func TestLeaseIsReclaimedWithoutTheMarker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		kept, err := r.reclaim(map[int]faultstore.Fault{
			0: markerRefused(),
			2: faultstore.On(faultstore.Attempt, faultstore.Name("x", faultstore.Refuse())),
		}, func(driver.Session) { time.Sleep(5 * time.Second); r.reset() })
		if err != nil || !kept {
			t.Errorf("reclaimed %v, %v; %s", kept, err, r.holders("x"))
		}
	})
}

// TestMarkerIsAttemptedAfterTheGrace: a node on which the marker cannot be reclaimed at all counts after its grace period.
func TestMarkerIsAttemptedAfterTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		c := r.process(map[int]faultstore.Fault{
			0: faultstore.On(faultstore.Reclaim, faultstore.Name(".quorum/nodes/0", faultstore.Refuse())),
			1: away(100*time.Second, time.Hour),
		}, nil)
		x := r.lock("holder", c, "x")
		time.Sleep(5 * time.Second)
		r.stores[0].Reset()
		time.Sleep(115 * time.Second)
		if !x.Valid() {
			t.Errorf("the lease was lost with two of three nodes well: %v", x.Err())
		}
	})
}

// TestCloseLeavesNothingWithoutTheMarker: a session is closed that is open on a node without its marker.
func TestCloseLeavesNothingWithoutTheMarker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		s := r.store(map[int]faultstore.Fault{0: markerRefused()})
		d, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: 10 * time.Second})
		must.OK(t, err)
		_, err = d.Attempt(t.Context(), claim(1))
		must.OK(t, err)
		_ = s.Close()
		r.stores[0].Restart()
		for range 2 { // the first finds out, the second opens the session there
			_, err = d.KeepAlive(t.Context())
			must.OK(t, err)
			_ = s.Close()
		}
		must.OK(t, d.Close(t.Context()))
		_ = s.Close()
		time.Sleep(time.Second)
		for _, name := range []string{"x", ".quorum/nodes/0"} {
			if n := r.taken(name); n != 0 {
				t.Errorf("a second after Close %q is on %d nodes: %s", name, n, r.holders(name))
			}
		}
	})
}
