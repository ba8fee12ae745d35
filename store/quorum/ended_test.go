// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/quorum"
)

// TestEndedSessionIsReportedAsEnded: one node never had the session, one says that it has
// ended, and the last says so later. Two of three failed by then, but not for the same
// reason: it takes the last one to know that the session is over and not out of reach.
func TestEndedSessionIsReportedAsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, nil)
		s := r.store(map[int]faultstore.Fault{
			0: faultstore.On(faultstore.Open, faultstore.Refuse()),
			2: faultstore.On(faultstore.KeepAlive, faultstore.Delay(0, 50*time.Millisecond)),
		})
		defer s.Close()
		ctx := t.Context()
		ses, _, err := s.Open(ctx, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Second})
		must.OK(t, err)
		time.Sleep(2 * time.Second)
		if _, err := ses.KeepAlive(ctx); !errors.Is(err, driver.ErrGone) {
			t.Errorf("got %v, want ErrGone", err)
		}
	})
}

// unanswered makes the nth Open on a node go unanswered, and returns what lets it arrive.
func unanswered(node *locktest.Tap, nth int) (arrive func() error) {
	var late func() error
	calls := 0
	node.OnOpen = func(ctx context.Context, req driver.OpenRequest, next locktest.OpenFunc) (driver.Session, driver.Renewal, error) {
		if calls++; calls != nth {
			return next(ctx, req)
		}
		late = func() error {
			_, _, err := next(context.Background(), req)
			return err
		}
		return nil, driver.Renewal{}, driver.ErrUnknown
	}
	return func() error { return late() }
}

// TestLateOpenRevivesNoSession: the first Open on c goes unanswered, and the next one has opened the session there. A lock is on a, b and c when
// the clock of c jumps, and c ends the session. Then the first Open arrives: if it began the session again, keep-alives would go on
// counting c, which has nothing of the lock.
func TestLateOpenRevivesNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, nil)
		var arrive func() error
		x := r.lock("c", r.client(r.through(func(c *locktest.Tap) { arrive = unanswered(c, 1) })), "x")
		time.Sleep(8 * time.Second)
		if on := r.on("x", x.Token()); on != "a b c" {
			t.Fatalf("x is on %q, want it on a b c: a keep-alive opens the session on c", on)
		}
		r.stores[2].StepClock(20 * time.Second)
		r.log("the clock of c jumps: %s", r.holders("x")) // which ends the session
		r.stores[2].StepClock(-20 * time.Second)
		must.OK(t, arrive())
		time.Sleep(20 * time.Second)
		if n := r.taken("x"); n != 3 || !x.Valid() {
			t.Errorf("x is on %d nodes, valid %v; want it on all again: %s", n, x.Valid(), r.holders("x"))
		}
	})
}

// TestLateOpenAfterADataLossIsOutlived: c loses its data, and an Open with which x is to be put back there goes unanswered; the next one has
// done it. Then the clock of c jumps, which ends the session, and the first Open arrives and begins it again, without x, unnoticed.
// The process gives that session up when the grace period of c is over: x is on c again, and a still later Open does no harm.
func TestLateOpenAfterADataLossIsOutlived(t *testing.T) {
	for _, after := range []time.Duration{0, 30 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 3, grace())
				var arrive func() error
				x := r.lock("c", r.client(r.through(func(c *locktest.Tap) { arrive = unanswered(c, 2) })), "x")
				time.Sleep(2 * time.Second)
				r.reset(2)
				time.Sleep(10 * time.Second) // one keep-alive finds it, the next two open the session
				if on := r.on("x", x.Token()); on != "a b c" {
					t.Fatalf("x is on %q, want it put back on c", on)
				}
				time.Sleep(after)
				r.stores[2].StepClock(20 * time.Second)
				r.log("the clock of c jumps: %s", r.holders("x"))
				r.stores[2].StepClock(-20 * time.Second)
				must.OK(t, arrive())
				time.Sleep(time.Minute)
				if n := r.taken("x"); n != 3 || !x.Valid() {
					t.Errorf("x is on %d nodes, valid %v; want it on all again: %s", n, x.Valid(), r.holders("x"))
				}
			})
		})
	}
}

// TestSessionsAreNotReplacedTogether: an Open goes unanswered on b and on c, which have lost their data. Given up on both at once, the session
// would have ended on a majority.
func TestSessionsAreNotReplacedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		nodes := r.nodes(nil)
		for _, n := range []int{1, 2} {
			tap := locktest.NewTap(nodes[n].Store)
			unanswered(tap, 2)
			tap.OnClose = func(context.Context) error { // which ends it on the other, unless that waits
				time.Sleep(100 * time.Millisecond)
				return driver.ErrUnknown
			}
			nodes[n].Store = tap
		}
		s, err := quorum.New(nodes, &quorum.Options{Alarm: r.alarm, NodeTimeout: time.Second})
		must.OK(t, err)
		x := r.lock("c", r.client(s), "x")
		time.Sleep(2 * time.Second)
		r.reset(1, 2)
		time.Sleep(time.Minute)
		if n := r.taken("x"); n != 3 || !x.Valid() {
			t.Errorf("x is on %d nodes, valid %v; want it on all: %s", n, x.Valid(), r.holders("x"))
		}
	})
}

// TestAttemptInAnEndedSessionBlocksNoLaterOne: a caller gives up a permit while c, which is slow, has not answered. c has ended the
// session when the attempt arrives, so nothing has to be withdrawn there. The session is opened again, and c is asked for the
// permit as any other node: it has no earlier claim that an attempt would have to wait for.
func TestAttemptInAnEndedSessionBlocksNoLaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, nil)
		nodes := r.nodes(nil)
		tap := locktest.NewTap(nodes[2].Store)
		slow := make(chan struct{}, 1)
		tap.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			select {
			case <-slow:
				time.Sleep(300 * time.Millisecond)
			default:
			}
			return next(ctx, c)
		}
		nodes[2].Store = tap
		s, err := quorum.New(nodes, &quorum.Options{Alarm: r.alarm, NodeTimeout: time.Second})
		must.OK(t, err)
		c := r.client(s)
		other := r.lock("c", c, "other") // keeps the session alive
		slow <- struct{}{}
		ctx, giveUp := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err = c.Semaphore("x", 1).Acquire(ctx, 1)
		giveUp()
		if err == nil {
			t.Fatal("a permit without the vote of c, want none: a semaphore needs every node")
		}
		r.stores[2].StepClock(20 * time.Second) // ends the session there
		time.Sleep(10 * time.Second)            // keep-alives open it again
		r.stores[2].StepClock(-20 * time.Second)
		time.Sleep(10 * time.Second)
		if !other.Valid() {
			t.Fatal("the other lease is lost, want it kept by a and b")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		permit, err := c.Semaphore("x", 1).Acquire(ctx, 1)
		if err != nil {
			t.Fatalf("a free semaphore while all nodes answer: %v", err)
		}
		must.OK(t, permit.Unlock(t.Context()))
	})
}
