// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"fmt"
	"sync"
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

// busily locks and unlocks many names from several goroutines, each with its own names.
func busily(t *testing.T, c *fencelock.Client, workers, rounds int) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for k := range rounds {
				l, err := c.Mutex(fmt.Sprint(i, "/", k)).Lock(t.Context())
				if err == nil {
					err = l.Unlock(t.Context())
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestNodeAwayIsOwedNothing: locks that are taken and given back while a node is away are
// not remembered until it is back, because it was never asked for them.
func TestNodeAwayIsOwedNothing(t *testing.T) {
	for name, fault := range map[string]faultstore.Fault{
		"refuses": faultstore.During(time.Second, time.Hour, faultstore.Refuse()),
		"silent":  away(time.Second, time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 5, grace())
				s := r.store(map[int]faultstore.Fault{4: fault})
				c := r.client(s)
				r.lock("c", c, "held") // opens the session everywhere
				time.Sleep(2 * time.Second)
				busily(t, c, 1, 1) // the first finds out
				time.Sleep(time.Second)
				_, before := s.Kept()
				if name == "refuses" && before != 0 {
					t.Errorf("a node that refused is owed %d claims", before)
				}
				busily(t, c, 16, 100)
				synctest.Wait() // what goes on behind the last of them
				if claims, owed := s.Kept(); owed > before || claims > before+1 {
					t.Errorf("after 1600 locks %d claims are kept and a node is owed %d, before %d", claims, owed, before)
				}
			})
		})
	}
}

// TestClaimThatGaveUpBetweenAttemptsIsForgotten: a majority of nodes is in its grace period, where a process that comes now has no
// marker and asks for nothing. Another node grants a claim, which gives that back and tries again. The caller gives up in between,
// when the claim is on no node. It does not stay in memory for as long as the session lasts.
func TestClaimThatGaveUpBetweenAttemptsIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		r.lock("early", r.process(nil, nil), "held")
		r.reset(0, 1)
		s := r.store(nil)
		d, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: 10 * time.Second})
		must.OK(t, err)
		for i := range 5 {
			c := claim(uint64(1 + i))
			c.Queue = true
			for range 2 {
				out, err := d.Attempt(t.Context(), c)
				must.OK(t, err)
				if !out.Grace {
					t.Errorf("%+v, want a grace period", out)
				}
				time.Sleep(100 * time.Millisecond)
			}
			if claims, _ := s.Kept(); claims != 1 {
				t.Errorf("%d claims are kept, want the one that waits", claims)
			}
			_, err := d.Withdraw(t.Context(), driver.Withdrawal{Seq: c.Seq, Name: c.Name})
			must.OK(t, err)
			if claims, owed := s.Kept(); claims > 0 || owed > 0 {
				t.Errorf("%d claims are kept and %d owed; all are withdrawn", claims, owed)
			}
		}
		must.OK(t, d.Close(t.Context()))
		_ = s.Close()
	})
}

// TestReleaseIsForgottenWithTheSessionOnANode: a node does not answer a withdrawal that the others have confirmed, for longer than the
// TTL. It has nothing of the session then, and the process forgets the claim, too.
func TestReleaseIsForgottenWithTheSessionOnANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		s := r.store(map[int]faultstore.Fault{2: away(5*time.Second, 25*time.Second)})
		c := r.client(s)
		r.lock("c", c, "held")
		time.Sleep(4 * time.Second) // the keep-alive repairs a node that granted after the others had decided
		l := r.lock("c", c, "x")
		time.Sleep(1500 * time.Millisecond)
		must.OK(t, l.Unlock(t.Context()))
		time.Sleep(time.Second)
		if claims, owed := s.Kept(); claims != 2 || owed != 1 {
			t.Fatalf("%d claims are kept and %d owed, want the one that is held, and the other on one node", claims, owed)
		}
		time.Sleep(time.Minute)
		if claims, owed := s.Kept(); claims != 1 || owed > 0 {
			t.Errorf("%d claims are kept and %d owed, want the one that is held", claims, owed)
		}
	})
}

// TestSilentNodeIsNotCrowded: a node that stops answering gets few claims before
// NodeTimeout marks it as away, however fast the other nodes are.
func TestSilentNodeIsNotCrowded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		quick := faultstore.Delay(100*time.Microsecond, 0)
		s := r.store(map[int]faultstore.Fault{0: quick, 1: quick, 2: away(time.Second, time.Hour)})
		c := r.client(s)
		r.lock("c", c, "held")
		time.Sleep(time.Second)
		busily(t, c, 64, 60) // nothing is slower than NodeTimeout, in which 30,000 would fit
		if _, owed := s.Kept(); owed > 2000 {
			t.Errorf("a node that answers nothing is owed %d claims", owed)
		}
	})
}

// TestNodeBackIsNotFlooded: what a node is owed when it is back is sent a part at a time,
// and all of it is sent.
func TestNodeBackIsNotFlooded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		nodes := r.nodes(map[int]faultstore.Fault{2: faultstore.Any(away(time.Second, 3*time.Second), faultstore.Delay(time.Millisecond, 0))})
		var now, most atomic.Int64 // withdrawals that are under way at once
		watched := locktest.NewTap(nodes[2].Store)
		watched.OnWithdraw = func(ctx context.Context, w driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
			n := now.Add(1)
			defer now.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			return next(ctx, w)
		}
		nodes[2].Store = watched
		s, err := quorum.New(nodes, &quorum.Options{Alarm: r.alarm, NodeTimeout: time.Second})
		must.OK(t, err)
		c := r.client(s)
		r.lock("c", c, "held")
		time.Sleep(time.Second)
		busily(t, c, 1000, 1) // all at once, so that all are sent
		if _, owed := s.Kept(); owed < 500 {
			t.Fatalf("the node is owed %d claims, want many", owed)
		}
		time.Sleep(1500 * time.Millisecond) // they are given up
		most.Store(0)
		time.Sleep(10 * time.Second) // the node is back
		if n := most.Load(); n > 128 {
			t.Errorf("%d withdrawals were sent at once, want at most 128", n)
		}
		if claims, owed := s.Kept(); claims != 1 || owed != 0 {
			t.Errorf("%d claims are kept and %d owed, want the one that is held", claims, owed)
		}
	})
}

// TestReclaimedOnAnotherNodeIsWithdrawn: a claim is put back on a node that never had it,
// after a loss. Its withdrawal reaches that node too.
func TestReclaimedOnAnotherNodeIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		c := r.process(map[int]faultstore.Fault{2: away(500*time.Millisecond, 2*time.Second)}, nil)
		r.lock("c", c, "first") // opens the session on all of them
		time.Sleep(600 * time.Millisecond)
		busily(t, c, 1, 1) // finds out that c is away
		time.Sleep(400 * time.Millisecond)
		held := r.lock("c", c, "x")
		if on := r.on("x", held.Token()); on != "a b" {
			t.Fatalf("x is on %q, want a b", on)
		}
		time.Sleep(1200 * time.Millisecond)
		r.reset()
		for range 300 { // before the node is joined to the claim anyway
			if time.Sleep(10 * time.Millisecond); r.taken("x") == 3 {
				break
			}
		}
		if n := r.taken("x"); n != 3 || !held.Valid() {
			t.Fatalf("x is on %d nodes, valid %t, want it put back on all", n, held.Valid())
		}
		must.OK(t, held.Unlock(t.Context()))
		time.Sleep(time.Second)
		if n := r.taken("x"); n != 0 {
			t.Errorf("x was given back and is on %d nodes: %s", n, r.holders("x"))
		}
	})
}

// TestReclaimedWhileAskedIsWithdrawn: an attempt is on its way to a node while all nodes lose
// their data, and the claim is put back there. The attempt then finds that the node was
// reset. The withdrawal of the claim reaches the node anyway.
func TestReclaimedWhileAskedIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		nodes := r.nodes(nil)
		slow, let := locktest.NewTap(nodes[2].Store), make(chan struct{})
		slow.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			if c.Name == "x" {
				<-let
			}
			return next(ctx, c)
		}
		nodes[2].Store = slow
		s, err := quorum.New(nodes, &quorum.Options{Alarm: r.alarm, NodeTimeout: 8 * time.Second})
		must.OK(t, err)
		c := r.client(s)
		r.lock("c", c, "first") // opens the session on all of them
		held := r.lock("c", c, "x")
		if on := r.on("x", held.Token()); on != "a b" {
			t.Fatalf("x is on %q, want a b", on)
		}
		r.reset()
		for range 500 {
			if time.Sleep(10 * time.Millisecond); r.taken("x") == 3 {
				break
			}
		}
		if n := r.taken("x"); n != 3 || !held.Valid() {
			t.Fatalf("x is on %d nodes, valid %t, want it put back on all", n, held.Valid())
		}
		close(let)
		synctest.Wait()
		must.OK(t, held.Unlock(t.Context()))
		time.Sleep(20 * time.Second)
		if n := r.taken("x"); n != 0 {
			t.Errorf("x was given back and is on %d nodes: %s", n, r.holders("x"))
		}
	})
}

// TestBrokenIsFoundTwiceWithANodeAway: a node does not answer, so the claim is remembered
// after its withdrawal. A second withdrawal finds it broken, too (I4).
func TestBrokenIsFoundTwiceWithANodeAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, nil)
		s := r.store(map[int]faultstore.Fault{2: away(time.Second, time.Hour)})
		d, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: 10 * time.Second})
		must.OK(t, err)
		out, err := d.Attempt(t.Context(), &driver.Claim{Seq: 1, Name: "x", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
		if err != nil || out.State != driver.Granted {
			t.Fatalf("got %v, %v", out.State, err)
		}
		time.Sleep(2 * time.Second)
		if _, err := s.Break(t.Context(), "x", out.Token); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			found, err := d.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x"})
			if err != nil || found != driver.WasBroken {
				t.Errorf("withdrawal %d found the claim %v, %v", i+1, found, err)
			}
		}
		_ = s.Close()
	})
}
