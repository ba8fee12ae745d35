// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/quorum"
)

// TestMarkerIsReclaimedAgain: a node loses its data, and the first call that puts something back there, our marker,
// fails. It is repeated with the next keep-alive, so the node counts in its grace period, and another can be spared.
func TestMarkerIsReclaimedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		c := r.process(map[int]faultstore.Fault{
			0: markerFails["refused"],
			1: away(4*time.Second, time.Hour),
		}, &fencelock.Options{TTL: 3 * time.Second}) // less than the grace period
		x := r.lock("holder", c, "x")
		synctest.Wait() // x is on a, too
		r.log("a loses its data; %s", r.holders("x"))
		r.stores[0].Reset()
		time.Sleep(20 * time.Second)
		if !x.Valid() {
			t.Errorf("the lease was lost with two of three nodes well: %v", x.Err())
		}
	})
}

// markerFails are ways in which our marker cannot be put back on a node at first: that is the first Reclaim there.
var markerFails = map[string]faultstore.Fault{
	"refused": faultstore.On(faultstore.Reclaim, faultstore.Nth(1, faultstore.Refuse())),
	"lost":    faultstore.On(faultstore.Reclaim, faultstore.Nth(1, faultstore.LoseRequest())), // its time is used up
}

// markerRefused refuses to put our marker back for a time, or for good.
func markerRefused(from, to time.Duration) faultstore.Fault {
	return faultstore.On(faultstore.Reclaim, faultstore.Name(marker, faultstore.During(from, to, faultstore.Refuse())))
}

// marker is the name of our marker on the shard of x.
const marker = ".quorum/nodes/0"

// TestLeaseIsReclaimedWithoutTheMarker: all nodes lose their data, and x was on a and b alone. On a the marker cannot be put
// back at first; x is all the same, with the Reclaim of the core, which asks once.
func TestLeaseIsReclaimedWithoutTheMarker(t *testing.T) {
	for name, fault := range markerFails {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 3, grace())
				kept, err := r.reclaim(map[int]faultstore.Fault{
					0: fault,
					2: faultstore.On(faultstore.Attempt, faultstore.Name("x", faultstore.Refuse())),
				}, func(driver.Session) { time.Sleep(5 * time.Second); r.reset() })
				if err != nil || !kept {
					t.Errorf("reclaimed %v, %v; %s", kept, err, r.holders("x"))
				}
			})
		})
	}
}

// TestMarkerIsAttemptedAfterTheGrace: a node on which the marker cannot be reclaimed at all counts after its grace period.
func TestMarkerIsAttemptedAfterTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		c := r.process(map[int]faultstore.Fault{
			0: markerRefused(0, time.Hour),
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
	for name, fault := range markerFails {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { closedWithoutTheMarker(t, fault) })
		})
	}
}

func closedWithoutTheMarker(t *testing.T, fault faultstore.Fault) {
	r := newRig(t, 3, grace())
	s := r.store(map[int]faultstore.Fault{0: fault})
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
	for _, name := range []string{"x", marker} {
		if n := r.taken(name); n != 0 {
			t.Errorf("a second after Close %q is on %d nodes: %s", name, n, r.holders(name))
		}
	}
}

// TestLeasePutBackBeforeTheMarkerCounts: a node loses its data, and the marker cannot be put back there at first. The leases
// that are count when it can, so another node can be spared: also one with a MaxHold, and one that the node granted with a
// token of its own, neither of which could be joined there once more.
func TestLeasePutBackBeforeTheMarkerCounts(t *testing.T) {
	const reset, gone = 19900 * time.Millisecond, 20 * time.Second
	faults := map[string]faultstore.Fault{"never": nil, "once": markerFails["refused"], "for a while": markerRefused(0, 24*time.Second)}
	for refused, fault := range faults {
		for kind, lock := range map[string]func(r *rig, c *fencelock.Client) *fencelock.Lease{
			"MaxHold": func(r *rig, c *fencelock.Client) *fencelock.Lease {
				x, err := c.Mutex("x", fencelock.MaxHold(10*time.Minute)).Lock(r.t.Context())
				must.OK(r.t, err)
				return x
			},
			"token of its own": func(r *rig, c *fencelock.Client) *fencelock.Lease {
				must.OK(r.t, r.lock("holder", c, "w").Unlock(r.t.Context())) // the session knows the nodes' counters
				ahead(r.t, r.stores[0], "x")
				return r.lock("holder", c, "x")
			},
		} {
			t.Run(kind+", refused "+refused, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, 3, grace())
					x := lock(r, r.process(map[int]faultstore.Fault{0: fault, 1: away(gone, time.Hour)}, nil))
					time.Sleep(reset - time.Since(r.began))
					r.log("a loses its data; %s, on %s", r.holders("x"), r.on("x", x.Token()))
					r.stores[0].Reset()
					time.Sleep(time.Minute)
					if !x.Valid() {
						t.Errorf("the lease was lost with two of three nodes well: %v", x.Err())
					}
				})
			})
		}
	}
}

// TestLeasePutBackDuringAKeepAliveCounts: a node loses its data, and while the session is opened there again, which takes a
// while, the others are kept alive. What is put back there does not count before the next keep-alive; then it does, so another
// node can be spared.
func TestLeasePutBackDuringAKeepAliveCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		slow := faultstore.On(faultstore.Open, faultstore.During(15*time.Second, time.Hour, faultstore.Delay(3500*time.Millisecond, 0)))
		nodes := r.nodes(map[int]faultstore.Fault{0: slow})
		stop := new(faultstore.Pauser)
		f, err := faultstore.Wrap(nodes[1].Store, nil, &faultstore.Options{Pauser: stop})
		must.OK(t, err)
		t.Cleanup(f.Wait)
		nodes[1].Store = f
		s, err := quorum.New(nodes, &quorum.Options{Alarm: r.alarm, NodeTimeout: 6 * time.Second})
		must.OK(t, err)
		c := r.client(s)
		must.OK(t, r.lock("holder", c, "w").Unlock(t.Context())) // the session knows the nodes' counters
		ahead(t, r.stores[0], "x")
		x := r.lock("holder", c, "x")
		time.Sleep(19*time.Second - time.Since(r.began))
		if n := r.taken("x"); n != 3 {
			t.Fatalf("x is on %d nodes: %s", n, r.holders("x"))
		}
		r.log("a loses its data; %s", r.holders("x"))
		r.stores[0].Reset()
		for r.taken("x") < 3 {
			time.Sleep(10 * time.Millisecond)
		}
		r.log("b stops; %s", r.holders("x"))
		stop.Pause(time.Hour)
		time.Sleep(time.Minute)
		if !x.Valid() {
			t.Errorf("the lease was lost with two of three nodes well: %v", x.Err())
		}
	})
}

// TestLeaseOnANodeThatMissedAKeepAliveCounts: a and b lose their data, and while the session is opened again c does not answer
// a keep-alive. The leases are put back on a and b, and c has them still: it counts with its next keep-alive, so a can be
// spared. One with a MaxHold could not be joined there.
func TestLeaseOnANodeThatMissedAKeepAliveCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		c := r.process(map[int]faultstore.Fault{
			0: away(20*time.Second, time.Hour),
			2: faultstore.On(faultstore.KeepAlive, faultstore.During(5*time.Second, 8500*time.Millisecond, faultstore.Refuse())),
		}, nil)
		x, err := c.Mutex("x", fencelock.MaxHold(10*time.Minute)).Lock(t.Context())
		must.OK(t, err)
		time.Sleep(5 * time.Second)
		r.log("a and b lose their data; %s", r.holders("x"))
		r.reset(0, 1)
		time.Sleep(time.Minute)
		if !x.Valid() {
			t.Errorf("the lease was lost with two of three nodes well: %v", x.Err())
		}
	})
}

// neverMarked is a process's view of the nodes in which the marker cannot be put back on a, and what is sent there.
func (r *rig) neverMarked() (*quorum.Store, *locktest.Tap) {
	r.t.Helper()
	nodes := r.nodes(map[int]faultstore.Fault{0: markerRefused(0, time.Hour)})
	tap := locktest.NewTap(nodes[0].Store)
	nodes[0].Store = tap
	s, err := quorum.New(nodes, &quorum.Options{Alarm: r.alarm})
	must.OK(r.t, err)
	return s, tap
}

// TestUnmarkedNodeIsNotAskedForEachLease: a node on which the marker cannot be put back is asked for it a few times with each
// keep-alive, however many leases there are.
func TestUnmarkedNodeIsNotAskedForEachLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leases = 600 // two batches
		r := newRig(t, 3, grace())
		s, tap := r.neverMarked()
		d, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: 10 * time.Second})
		must.OK(t, err)
		keepAlive := func() {
			t.Helper()
			_, err = d.KeepAlive(t.Context())
			must.OK(t, err)
			_ = s.Close()
		}
		acquire := func(from, to int) {
			t.Helper()
			for i := from; i < to; i++ {
				c := claim(uint64(i + 1))
				c.Name = fmt.Sprint("x", i)
				_, err := d.Attempt(t.Context(), c)
				must.OK(t, err)
			}
			_ = s.Close()
		}
		acquire(0, leases)
		keepAlive() // all leases are on all nodes
		r.stores[0].Reset()
		keepAlive()
		keepAlive()
		acquire(leases, 2*leases) // these are not on a
		for range 4 {
			reclaims, attempts := len(tap.Sent(faultstore.Reclaim)), len(tap.Sent(faultstore.Attempt))
			keepAlive()
			reclaims, attempts = len(tap.Sent(faultstore.Reclaim))-reclaims, len(tap.Sent(faultstore.Attempt))-attempts
			if reclaims+attempts > 6 {
				t.Errorf("%d reclaims and %d attempts with one keep-alive, want 6 at most", reclaims, attempts)
			}
		}
		must.OK(t, d.Close(t.Context()))
		_ = s.Close()
	})
}

// TestUnmarkedNodeIsNotAskedToRaise: a and b lose their data, and the leases are reclaimed there, on a without the marker. c
// then grants them with tokens of its own, for which a and b would have to be raised: a is not asked, for each lease would
// cost two calls for its marker.
func TestUnmarkedNodeIsNotAskedToRaise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leases = 40
		r := newRig(t, 3, grace())
		s, tap := r.neverMarked()
		t.Cleanup(func() { _ = s.Close() })
		req := driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: 10 * time.Second}
		d, _, err := s.Open(t.Context(), req)
		must.OK(t, err)
		other, _, err := r.stores[2].Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 10 * time.Second})
		must.OK(t, err)
		var held []driver.Held
		for i := range leases {
			c := claim(uint64(i + 1))
			c.Name = fmt.Sprint("x", i)
			theirs := *c
			theirs.Floor = driver.Token(1) << 62
			_, err := other.Attempt(t.Context(), &theirs)
			must.OK(t, err)
			out, err := d.Attempt(t.Context(), c)
			if err != nil || out.State != driver.Granted {
				t.Fatalf("got %+v, %v", out, err)
			}
			held = append(held, driver.Held{Claim: *c, Token: out.Token})
		}
		time.Sleep(4 * time.Second)
		r.reset(0, 1)
		if _, err := d.KeepAlive(t.Context()); !errors.Is(err, driver.ErrReset) {
			t.Fatalf("got %v, want a reset", err)
		}
		d, _, err = s.Open(t.Context(), req)
		must.OK(t, err)
		kept, err := d.Reclaim(t.Context(), held, true)
		if err != nil || slices.Contains(kept, false) {
			t.Fatalf("reclaimed %v, %v", kept, err)
		}
		must.OK(t, other.Close(t.Context()))
		for time.Since(r.began) < 12*time.Second { // in the grace period of a
			time.Sleep(2 * time.Second)
			calls := len(tap.Sent(faultstore.Reclaim)) + len(tap.Sent(faultstore.Attempt))
			_, err = d.KeepAlive(t.Context())
			must.OK(t, err)
			_ = s.Close()
			if n := len(tap.Sent(faultstore.Reclaim)) + len(tap.Sent(faultstore.Attempt)) - calls; n > 6 {
				t.Errorf("at %v: %d calls to a with one keep-alive, want 6 at most", time.Since(r.began), n)
			}
		}
		if n := r.taken("x0"); n != 3 {
			t.Errorf("x0 is on %d nodes, and c was to grant it: %s", n, r.holders("x0"))
		}
		must.OK(t, d.Close(t.Context()))
		_ = s.Close()
	})
}

// TestLateAnswerDoesNotUnmarkANode: two calls ask for the marker at once. For one it cannot be put back, and the answer that
// the node is in its grace period comes after the other call has put it back: the node counts.
func TestLateAnswerDoesNotUnmarkANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		nodes := r.nodes(nil)
		tap := locktest.NewTap(nodes[0].Store)
		var left atomic.Int32 // how many times it is refused
		tap.OnReclaim = func(ctx context.Context, held []driver.Held, last bool, next locktest.ReclaimFunc) ([]bool, error) {
			if len(held) == 1 && held[0].Claim.Name == marker && left.Add(-1) >= 0 {
				return nil, driver.ErrUnavailable
			}
			return next(ctx, held, last)
		}
		tap.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			out, err := next(ctx, c)
			if c.Name == marker {
				time.Sleep(50 * time.Millisecond) // its answer is late
			}
			return out, err
		}
		nodes[0].Store = tap
		s, err := quorum.New(nodes, &quorum.Options{Alarm: r.alarm})
		must.OK(t, err)
		d, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: 10 * time.Second})
		must.OK(t, err)
		_, err = d.Attempt(t.Context(), claim(1))
		must.OK(t, err)
		_ = s.Close()
		r.stores[0].Reset()
		left.Store(2) // with the open, and with the first attempt below
		for range 2 {
			_, err = d.KeepAlive(t.Context())
			must.OK(t, err)
			_ = s.Close()
		}
		for i := range 2 {
			c := claim(uint64(10 + i))
			c.Name = fmt.Sprint("y", i)
			go d.Attempt(t.Context(), c)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		if n := left.Load(); n > 0 {
			t.Fatalf("the marker was to be refused %d more times", n)
		}
		asked := len(tap.Sent(faultstore.Reclaim))
		c := claim(20)
		c.Name = "z"
		_, err = d.Attempt(t.Context(), c)
		must.OK(t, err)
		_ = s.Close()
		if n := len(tap.Sent(faultstore.Reclaim)) - asked; n > 0 {
			t.Errorf("the marker is on the node, and was put back %d times more", n)
		}
		must.OK(t, d.Close(t.Context()))
		_ = s.Close()
	})
}
