// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
)

// These were found by TestSettles.

// TestFirstOfTwoAttemptsArrivesAfterTheUnlock: c does not answer the attempt, so the claim is joined there with a second one, which is
// granted. That says nothing about the first: it arrives when x was unlocked, and must find a tombstone.
func TestFirstOfTwoAttemptsArrivesAfterTheUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		late, arrived := make(chan struct{}), make(chan struct{})
		attempts := 0
		s := r.through(func(c *locktest.Tap) {
			c.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
				if c.Name != "x" {
					return next(ctx, c)
				}
				if attempts++; attempts > 1 {
					return next(ctx, c)
				}
				go func() {
					defer close(arrived)
					<-late
					_, _ = next(context.WithoutCancel(ctx), c)
				}()
				<-ctx.Done()
				return driver.Outcome{}, driver.ErrUnknown
			}
		})
		defer s.Close()
		d := opened(t, s, "x")
		if got, err := d.Attempt(t.Context(), claim(1)); err != nil || got.State != driver.Granted {
			t.Fatalf("got %+v, %v", got, err)
		}
		for range 5 { // the attempt is over, and c is joined
			time.Sleep(time.Second)
			_, err := d.KeepAlive(t.Context())
			must.OK(t, err)
			synctest.Wait()
		}
		if n := r.taken("x"); n != 3 {
			t.Fatalf("x is on %d nodes, want all: c was to be joined", n)
		}
		_, err := d.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x"})
		must.OK(t, err)
		synctest.Wait()
		close(late)
		<-arrived
		renewed(t, d)
		if n := r.taken("x"); n != 0 {
			t.Errorf("x was unlocked a minute ago and is on %d nodes: %s", n, r.holders("x"))
		}
		must.OK(t, d.Close(t.Context()))
	})
}

// TestWithdrawalFromBeforeALossIsRepeated: c alone grants x, which is given back, and the withdrawal takes long. Meanwhile x is granted by
// a and b, and c loses its data: it is not asked to put x back before it has given it back, or the withdrawal would count for both. x is
// unlocked, and then the withdrawal from before fails.
func TestWithdrawalFromBeforeALossIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		slow, over := true, make(chan struct{})
		s := r.through(func(c *locktest.Tap) {
			c.OnWithdraw = func(ctx context.Context, d driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
				if slow {
					slow = false
					<-over
					return driver.WasAbsent, driver.ErrUnknown
				}
				return next(ctx, d)
			}
		})
		defer s.Close()
		free, d := r.hold(claim(1), 0, 1), opened(t, s, "x")
		if got, err := d.Attempt(t.Context(), claim(7)); err != nil || got.State != driver.Busy {
			t.Fatalf("got %+v, %v; want busy: only c is free", got, err)
		}
		free()
		synctest.Wait()
		if got, err := d.Attempt(t.Context(), claim(7)); err != nil || got.State != driver.Granted {
			t.Fatalf("got %+v, %v", got, err)
		}
		r.reset(2)
		keptTwice(t, d) // the first finds it, and the second opens the session
		_, err := d.Withdraw(t.Context(), driver.Withdrawal{Seq: 7, Name: "x"})
		must.OK(t, err)
		close(over)
		renewed(t, d)
		if n := r.taken("x"); n != 0 {
			t.Errorf("x was unlocked a minute ago and is on %d nodes: %s", n, r.holders("x"))
		}
		if kept, owed := s.Kept(); kept != 0 || owed != 0 {
			t.Errorf("the store keeps %d claims and owes %d", kept, owed)
		}
		must.OK(t, d.Close(t.Context()))
	})
}

// TestTryIsForgottenWithTheSessionOnANode: c alone grants what is only tried, and the withdrawal fails. The core does not withdraw what was
// busy. When c ends the session nothing of the claim is left, also not in memory.
func TestTryIsForgottenWithTheSessionOnANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, nil)
		s := r.through(func(c *locktest.Tap) {
			c.OnWithdraw = func(context.Context, driver.Withdrawal, locktest.WithdrawFunc) (driver.Removed, error) {
				return driver.WasAbsent, driver.ErrUnavailable
			}
		})
		defer s.Close()
		others := r.store(map[int]faultstore.Fault{2: faultstore.On(faultstore.Open, faultstore.Refuse())})
		defer others.Close()
		c, holder := r.client(s), r.client(others)
		r.lock("the other process", holder, "x")
		r.lock("c", c, "other") // keeps the session alive
		if l, err := c.Mutex("x").TryLock(t.Context()); err == nil {
			t.Fatalf("got %v, want busy: only c is free", l)
		}
		r.stores[2].StepClock(20 * time.Second) // ends the session there
		time.Sleep(10 * time.Second)            // keep-alives open it again
		r.stores[2].StepClock(-20 * time.Second)
		time.Sleep(time.Minute)
		if n := r.taken("x"); n != 2 {
			t.Errorf("x is on %d nodes, want two: %s", n, r.holders("x"))
		}
		if kept, owed := s.Kept(); kept != 1 || owed != 0 {
			t.Errorf("the store keeps %d claims and owes %d, want only the lock that is held", kept, owed)
		}
	})
}

// TestWaiterIsAskedForWhereItWasDropped: c does not answer the attempt at x, which another process holds on a and b. Both lose their data, and
// the session is opened again. The last reclaim drops what it does not know, on c with a tombstone. The core still waits for x and asks
// for it again, with the same number; c must not refuse it for as long as x is held.
func TestWaiterIsAskedForWhereItWasDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, nil)
		var answers atomic.Bool
		s := r.through(func(c *locktest.Tap) {
			c.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
				if c.Name == "x" && !answers.Load() {
					<-ctx.Done()
					return driver.Outcome{}, driver.ErrUnknown
				}
				return next(ctx, c)
			}
		})
		defer s.Close()
		free := r.hold(claim(1), 0, 1)
		req := driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: 10 * time.Second}
		d, _, err := s.Open(t.Context(), req)
		must.OK(t, err)
		waiting := claim(7)
		waiting.Queue = true
		if got, err := d.Attempt(t.Context(), waiting); err != nil || got.State == driver.Granted {
			t.Fatalf("got %+v, %v, want busy", got, err)
		}
		time.Sleep(3 * time.Second) // c does not answer
		answers.Store(true)
		free()
		r.reset(0, 1)
		d = openedAgain(t, s, d, req)
		_, err = d.Reclaim(t.Context(), nil, true)
		must.OK(t, err)
		time.Sleep(time.Second)
		got, err := d.Attempt(t.Context(), waiting)
		must.OK(t, err)
		if got.State == driver.Absent { // the core takes another number then
			waiting.Seq++
			got, err = d.Attempt(t.Context(), waiting)
			must.OK(t, err)
		}
		if got.State != driver.Granted {
			t.Fatalf("got %+v", got)
		}
		renewed(t, d)
		if n := r.taken("x"); n != 3 {
			t.Errorf("x is held for a minute while all nodes answer, and it is on %d of them: %s", n, r.holders("x"))
		}
		must.OK(t, d.Close(t.Context()))
	})
}

// TestDroppedClaimIsForgottenWithTheSessionOnANode: c alone grants what is only tried, and cannot withdraw it. a and b lose their data, and what
// the core does not reclaim is dropped. It asks for that no more, so when c ends the session nothing is left of the claim.
func TestDroppedClaimIsForgottenWithTheSessionOnANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, nil)
		s := r.through(func(c *locktest.Tap) {
			c.OnWithdraw = func(context.Context, driver.Withdrawal, locktest.WithdrawFunc) (driver.Removed, error) {
				return driver.WasAbsent, driver.ErrUnavailable
			}
		})
		defer s.Close()
		free := r.hold(claim(1), 0, 1)
		req := driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: 10 * time.Second}
		d, _, err := s.Open(t.Context(), req)
		must.OK(t, err)
		if got, err := d.Attempt(t.Context(), claim(7)); err != nil || got.State != driver.Busy {
			t.Fatalf("got %+v, %v, want busy: only c is free", got, err)
		}
		free()
		r.reset(0, 1)
		d = openedAgain(t, s, d, req)
		_, err = d.Reclaim(t.Context(), nil, true)
		must.OK(t, err)
		time.Sleep(time.Second)
		r.stores[2].StepClock(20 * time.Second) // ends the session there
		renewed(t, d)
		if kept, owed := s.Kept(); kept != 0 || owed != 0 {
			t.Errorf("the store keeps %d claims and owes %d", kept, owed)
		}
		must.OK(t, d.Close(t.Context()))
	})
}

// TestRefusedLiftDoesNotHideAGrant: a and c grant what is only tried, with different tokens, and b is taken. c refuses the lift: it did nothing,
// so c still has the claim. The core does not withdraw what was busy, so the quorum must.
func TestRefusedLiftDoesNotHideAGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, nil)
		attempts := 0
		s := r.through(func(c *locktest.Tap) {
			c.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
				if c.Name == "x" {
					if attempts++; attempts == 2 {
						return driver.Outcome{}, driver.ErrUnavailable
					}
				}
				return next(ctx, c)
			}
		})
		defer s.Close()
		c := r.client(s)
		r.lock("c", c, "other") // keeps the session alive
		b, ahead := opened(t, r.stores[1], "x"), opened(t, r.stores[2], "x")
		_, err := b.Attempt(t.Context(), claim(1))
		must.OK(t, err)
		z := claim(1) // the tokens of c are ahead of the others
		z.Name, z.Floor = "z", 100*driver.TokenStep
		_, err = ahead.Attempt(t.Context(), z)
		must.OK(t, err)
		if l, err := c.Mutex("x").TryLock(t.Context()); err == nil || attempts != 2 {
			t.Fatalf("got %v after %d attempts at c, want a lift that is refused", l, attempts)
		}
		time.Sleep(time.Minute) // the session on b has ended
		if n := r.taken("x"); n != 0 {
			t.Errorf("x was tried a minute ago and is on %d nodes: %s", n, r.holders("x"))
		}
	})
}
