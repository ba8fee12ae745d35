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

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/quorum"
)

// What is unlocked while a node is asked to put it back must not come back there: no tombstone protects it where the node lost its data, or
// ended the session, since.

// named reports whether a reclaim asks for a name.
func named(held []driver.Held, name string) bool {
	return slices.ContainsFunc(held, func(h driver.Held) bool { return h.Claim.Name == name })
}

// through is a store over the nodes, of which the last one is behind a tap.
func (r *rig) through(tap func(*locktest.Tap)) *quorum.Store {
	r.t.Helper()
	nodes := r.nodes(nil)
	last := locktest.NewTap(nodes[len(nodes)-1].Store)
	tap(last)
	nodes[len(nodes)-1].Store = last
	s, err := quorum.New(nodes, &quorum.Options{Alarm: r.alarm, NodeTimeout: 2 * time.Second})
	must.OK(r.t, err)
	return s
}

// renewed renews a session for a minute.
func renewed(t *testing.T, d driver.Session) {
	t.Helper()
	for range 60 {
		_, err := d.KeepAlive(t.Context())
		must.OK(t, err)
		time.Sleep(time.Second)
	}
}

// TestUnlockDuringAReclaimThatIsRepeated: c is slow to get a reclaim, and x is unlocked meanwhile, on every node. c loses its data
// before the reclaim arrives, so the session is opened there and the reclaim is repeated, without x.
func TestUnlockDuringAReclaimThatIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		sent, let := make(chan struct{}, 10), make(chan struct{})
		c := r.client(r.through(func(c *locktest.Tap) {
			c.OnReclaim = func(ctx context.Context, held []driver.Held, last bool, next locktest.ReclaimFunc) ([]bool, error) {
				if named(held, "x") {
					sent <- struct{}{}
					<-let
				}
				return next(ctx, held, last)
			}
		}))
		other := r.lock("c", c, "other") // keeps the session alive
		held := r.lock("c", c, "x")
		time.Sleep(time.Second)
		r.reset(0, 1)
		<-sent
		time.Sleep(200 * time.Millisecond) // the other nodes answer
		must.OK(t, held.Unlock(t.Context()))
		time.Sleep(100 * time.Millisecond)
		r.reset(2)
		close(let)
		time.Sleep(time.Minute)
		if n := r.taken("x"); n != 0 {
			t.Errorf("x was unlocked a minute ago and is on %d nodes: %s", n, r.holders("x"))
		}
		if !other.Valid() {
			t.Error("the other lease is lost")
		}
	})
}

// TestForgottenClaimIsNotReclaimed: x is unlocked while c, in its grace period, is asked to put it back. c does not answer the
// withdrawal and ends the session, so the process forgets x. The reclaim is told so and repeated in a new session; x is not in it.
func TestForgottenClaimIsNotReclaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		sent, let := make(chan struct{}), make(chan struct{})
		var calls atomic.Int32
		s := r.through(func(c *locktest.Tap) {
			c.OnReclaim = func(ctx context.Context, held []driver.Held, last bool, next locktest.ReclaimFunc) ([]bool, error) {
				if !named(held, "x") {
					return next(ctx, held, last)
				}
				if calls.Add(1) == 1 {
					close(sent)
					<-let
					return next(ctx, held, last)
				}
				_, err := next(ctx, held, last)
				return nil, fmt.Errorf("%w: its reply is lost: %v", driver.ErrUnknown, err)
			}
			c.OnWithdraw = func(ctx context.Context, d driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
				if calls.Load() == 1 {
					return driver.WasAbsent, driver.ErrUnknown
				}
				return next(ctx, d)
			}
		})
		defer s.Close()
		d, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: 3 * time.Second})
		must.OK(t, err)
		if got, err := d.Attempt(t.Context(), claim(1)); err != nil || got.State != driver.Granted {
			t.Fatalf("got %+v, %v", got, err)
		}
		synctest.Wait()
		r.reset(2)
		keptTwice(t, d) // the first finds it, after the second c is asked to put x back
		<-sent
		_, err = d.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x"})
		must.OK(t, err)
		r.stores[2].StepClock(4 * time.Second) // ends the session there; less than half of max_ttl, so that c counts
		_, err = d.KeepAlive(t.Context())
		must.OK(t, err)
		synctest.Wait()
		close(let)
		renewed(t, d)
		if n := r.taken("x"); n != 0 {
			t.Errorf("x was unlocked a minute ago and is on %d nodes: %s", n, r.holders("x"))
		}
		must.OK(t, d.Close(t.Context()))
	})
}

// keptTwice keeps a session alive twice.
func keptTwice(t *testing.T, d driver.Session) {
	t.Helper()
	for range 2 {
		_, err := d.KeepAlive(t.Context())
		must.OK(t, err)
		synctest.Wait()
	}
}

// openedAgain opens a session that has found that the quorum lost its data.
func openedAgain(t *testing.T, s *quorum.Store, before driver.Session, req driver.OpenRequest) driver.Session {
	t.Helper()
	if _, err := before.KeepAlive(t.Context()); !errors.Is(err, driver.ErrReset) {
		t.Fatalf("got %v, want ErrReset", err)
	}
	req.Before = before
	d, _, err := s.Open(t.Context(), req)
	must.OK(t, err)
	return d
}

// hold lets another process have a claim on some nodes, until free is called.
func (r *rig) hold(c *driver.Claim, nodes ...int) (free func()) {
	var sessions []driver.Session
	for _, n := range nodes {
		d := opened(r.t, r.stores[n], c.Name)
		if got, err := d.Attempt(r.t.Context(), c); err != nil || got.State != driver.Granted {
			r.t.Fatalf("got %+v, %v", got, err)
		}
		sessions = append(sessions, d)
	}
	return func() {
		for _, d := range sessions {
			must.OK(r.t, d.Close(r.t.Context()))
		}
	}
}

// TestReclaimAsksNoNodeThatIsGivenItBack: a lease is on a and b. c voted for it before, and has removed the vote, but not answered yet, when a
// and b lose their data. If c were asked to put the lease back, under the number that was withdrawn, the answer to the
// withdrawal would have the process forget what c has.
func TestReclaimAsksNoNodeThatIsGivenItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		away, slow := true, false
		executed, let := make(chan struct{}), make(chan struct{})
		s := r.through(func(c *locktest.Tap) {
			c.OnWithdraw = func(ctx context.Context, d driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
				if away {
					return driver.WasAbsent, driver.ErrUnavailable
				}
				found, err := next(ctx, d)
				if slow {
					slow = false
					close(executed)
					<-let
				}
				return found, err
			}
		})
		defer s.Close()
		free := r.hold(claim(1), 0, 1)
		req := driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: 3 * time.Second}
		d, _, err := s.Open(t.Context(), req)
		must.OK(t, err)
		x := claim(1)
		if got, err := d.Attempt(t.Context(), x); err != nil || got.State != driver.Busy {
			t.Fatalf("got %+v, %v; another session holds x on a and b", got, err)
		}
		synctest.Wait() // c has voted, and not given it back
		free()
		got, err := d.Attempt(t.Context(), x)
		if err != nil || got.State != driver.Granted {
			t.Fatalf("got %+v, %v", got, err)
		}
		synctest.Wait()
		r.reset(2)
		away, slow = false, true
		keptTwice(t, d) // the first finds it, after the second c is asked again to give the vote back
		<-executed
		r.reset(0, 1)
		d = openedAgain(t, s, d, req)
		kept, err := d.Reclaim(t.Context(), []driver.Held{{Claim: *x, Token: got.Token}}, true)
		must.OK(t, err)
		if !kept[0] {
			t.Fatal("the lease is lost, want it on a and b again")
		}
		close(let)
		synctest.Wait()
		_, err = d.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x"})
		must.OK(t, err)
		renewed(t, d)
		if n := r.taken("x"); n != 0 {
			t.Errorf("x was unlocked a minute ago and is on %d nodes: %s", n, r.holders("x"))
		}
		must.OK(t, d.Close(t.Context()))
	})
}

// TestUnlockBetweenBatchesOfAReclaim: c loses its data while a process holds more locks than one call puts back. While the first call
// is in flight all that are not in it are unlocked. The second call does not ask for them.
func TestUnlockBetweenBatchesOfAReclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const locks = 600
		r := newRig(t, 3, grace())
		sent, let := make(chan []driver.Held, 1), make(chan struct{})
		first := true
		s := r.through(func(c *locktest.Tap) {
			c.OnReclaim = func(ctx context.Context, held []driver.Held, last bool, next locktest.ReclaimFunc) ([]bool, error) {
				if first && len(held) > 1 { // one is the marker
					first = false
					sent <- held
					<-let
				}
				return next(ctx, held, last)
			}
		})
		defer s.Close()
		d := opened(t, s, "x")
		name := func(seq uint64) string { return fmt.Sprint("lock-", seq) }
		for seq := uint64(1); seq <= locks; seq++ {
			c := claim(seq)
			c.Name = name(seq)
			if got, err := d.Attempt(t.Context(), c); err != nil || got.State != driver.Granted {
				t.Fatalf("got %+v, %v", got, err)
			}
			synctest.Wait()
		}
		r.reset(2)
		for range 2 {
			_, err := d.KeepAlive(t.Context())
			must.OK(t, err)
			time.Sleep(100 * time.Millisecond)
		}
		batch := <-sent
		var unlocked []string
		for seq := uint64(1); seq <= locks; seq++ {
			if !named(batch, name(seq)) {
				_, err := d.Withdraw(t.Context(), driver.Withdrawal{Seq: seq, Name: name(seq)})
				must.OK(t, err)
				unlocked = append(unlocked, name(seq))
			}
		}
		if len(unlocked) == 0 {
			t.Fatal("one call puts back all")
		}
		synctest.Wait()
		close(let)
		renewed(t, d)
		left := slices.DeleteFunc(slices.Clone(unlocked), func(name string) bool { return r.taken(name) == 0 })
		if len(left) > 0 {
			t.Errorf("%d of %d locks that were unlocked a minute ago are still there: %s", len(left), len(unlocked), r.holders(left[0]))
		}
		must.OK(t, d.Close(t.Context()))
	})
}
