// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/memstore"
)

// kindLatches returns handles of one latch in several processes.
func kindLatches(t *testing.T, store driver.Store, processes int) (ls []*fencelock.CountDownLatch) {
	t.Helper()
	for range processes {
		ls = append(ls, kindClient(t, store, nil).CountDownLatch("start", time.Hour, "db", "cache", "queue"))
	}
	return ls
}

func kindRemaining(t *testing.T, l *fencelock.CountDownLatch, want ...string) {
	t.Helper()
	if got, err := l.Remaining(kindContext(t)); err != nil || !slices.Equal(got, want) {
		t.Errorf("remaining %v, %v; want %v", got, err, want)
	}
}

func kindReport(t *testing.T, l *fencelock.CountDownLatch, parties ...string) {
	t.Helper()
	for _, p := range parties {
		if err := l.CountDown(kindContext(t), p); err != nil {
			t.Errorf("count down %s: %v", p, err)
		}
	}
}

func TestLatchOpensWhenAllHaveReported(t *testing.T) {
	for _, order := range [][]string{{"queue", "db", "cache"}, {"db", "cache", "queue"}, {"cache", "queue", "db"}} {
		t.Run(order[2]+" last", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { latchOpens(t, order) })
		})
	}
}

func latchOpens(t *testing.T, order []string) {
	ls := kindLatches(t, memstore.New(&memstore.Options{Shards: 3}), 3)
	var waits []*kindCall[struct{}]
	for _, l := range ls { // before it is armed, two in each process
		for range 2 {
			waits = append(waits, kindGo(kindErr(func() error { return l.Wait(kindContext(t)) })))
		}
	}
	kindRemaining(t, ls[0], "db", "cache", "queue")
	for range 2 { // arming twice changes nothing
		if err := ls[0].Arm(kindContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	waits = append(waits, kindGo(kindErr(func() error { return ls[2].Wait(kindContext(t)) })))
	for i, p := range order {
		time.Sleep(time.Minute)
		for _, w := range waits {
			w.waits(t, p+" has not reported")
		}
		kindReport(t, ls[i], p)
		rest, err := ls[1].Remaining(kindContext(t))
		if err != nil || len(rest) != 2-i || slices.Contains(rest, p) {
			t.Errorf("remaining %v, %v after %s", rest, err, p)
		}
	}
	time.Sleep(time.Second)
	for _, w := range waits {
		w.now(t, "all have reported")
	}
	if err := ls[1].Arm(kindContext(t)); err != nil { // late, as every process may
		t.Fatal(err)
	}
	if err := ls[1].Wait(kindContext(t)); err != nil {
		t.Error(err)
	}
}

func TestLatchCountsAPartyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		ls := kindLatches(t, store, 2)
		// The answer to the first report gets lost, so it is made again.
		lossy := kindClient(t, kindFaulty(t, store, `on(break, nth(1, lose(reply)))`), nil).
			CountDownLatch("start", time.Hour, "db", "cache", "queue")
		if err := ls[0].Arm(kindContext(t)); err != nil {
			t.Fatal(err)
		}
		kindIs(t, lossy.CountDown(kindContext(t), "db"), fencelock.ErrUnavailable)
		kindReport(t, lossy, "db", "db")
		kindReport(t, ls[1], "db")
		kindRemaining(t, ls[0], "cache", "queue")
		waiting := kindGo(kindErr(func() error { return ls[1].Wait(kindContext(t)) }))
		kindReport(t, ls[0], "cache", "cache", "cache")
		waiting.waits(t, "one party is left, however often the others report")
		kindReport(t, ls[0], "queue")
		waiting.now(t, "all have reported")
	})
}

func TestLatchArmedByManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		var all sync.WaitGroup
		for _, l := range kindLatches(t, store, 8) {
			all.Go(func() {
				if err := l.Arm(kindContext(t)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		l := kindLatches(t, store, 1)[0]
		kindRemaining(t, l, "db", "cache", "queue")
		kindReport(t, l, "db", "cache", "queue")
		if err := l.Wait(kindContext(t)); err != nil {
			t.Error(err)
		}
	})
}

// Whoever arms dies half way; the next goes on.
func TestLatchArmedHalfWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		half := kindClient(t, kindFaulty(t, store, `name("start#cache", cut(1h))`), nil).
			CountDownLatch("start", time.Hour, "db", "cache", "queue")
		if err := half.Arm(kindContext(t)); err == nil {
			t.Fatal("armed although the store was cut off")
		}
		l := kindLatches(t, store, 1)[0]
		kindIs(t, l.CountDown(kindContext(t), "db"), fencelock.ErrNotArmed)
		kindRemaining(t, l, "db", "cache", "queue")
		if err := l.Arm(kindContext(t)); err != nil {
			t.Fatal(err)
		}
		kindReport(t, l, "db", "cache")
		kindRemaining(t, l, "queue")
		kindReport(t, l, "queue")
		if err := l.Wait(kindContext(t)); err != nil {
			t.Error(err)
		}
	})
}

func TestLatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := kindLatches(t, memstore.New(nil), 1)[0]
		kindIs(t, l.CountDown(kindContext(t), "db"), fencelock.ErrNotArmed)
		ctx, cancel := context.WithTimeout(kindContext(t), time.Minute)
		defer cancel()
		kindIs(t, l.Wait(ctx), context.DeadlineExceeded) // nobody arms it
		if err := l.Arm(kindContext(t)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel = context.WithTimeout(kindContext(t), time.Minute)
		defer cancel()
		kindIs(t, l.Wait(ctx), context.DeadlineExceeded) // nobody reports
		kindReport(t, l, "db")
		waiting := kindGo(kindErr(func() error { return l.Wait(kindContext(t)) }))
		time.Sleep(58 * time.Minute)
		waiting.waits(t, "parties are left")
		time.Sleep(2 * time.Minute) // keep is over: they count as reported
		waiting.now(t, "keep is over")
		kindIs(t, l.CountDown(kindContext(t), "db"), fencelock.ErrNotArmed)
	})
}

func TestLatchRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := kindClient(t, store, nil)
		poor := kindClient(t, kindCaps{store, func(c *driver.Caps) { c.Hold = false }}, nil)
		for _, bad := range []*fencelock.CountDownLatch{
			c.CountDownLatch("x", 0, "a"), c.CountDownLatch("x", time.Hour), poor.CountDownLatch("x", time.Hour, "a"),
		} {
			_, err := bad.Remaining(kindContext(t))
			if err == nil || bad.Arm(kindContext(t)) == nil || bad.Wait(kindContext(t)) == nil || bad.CountDown(kindContext(t), "a") == nil {
				t.Error("a bad latch was used")
			}
		}
		_, err := poor.CountDownLatch("x", time.Hour, "a").Remaining(kindContext(t))
		kindIs(t, err, errors.ErrUnsupported)
	})
}

// A typing error in a party's name must not leave everybody waiting.
func TestLatchRefusesAnUnknownParty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := kindLatches(t, memstore.New(nil), 1)[0]
		if err := l.Arm(kindContext(t)); err != nil {
			t.Fatal(err)
		}
		if err := l.CountDown(kindContext(t), "databse"); err == nil {
			t.Error("a party that the latch does not have has reported")
		}
	})
}

// Whatever a party is called, it is a party.
func TestLatchPartyCalledArmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := kindClient(t, memstore.New(nil), nil).CountDownLatch("start", time.Hour, "armed", "other")
		if err := l.Arm(kindContext(t)); err != nil {
			return // refusing it is fine
		}
		kindRemaining(t, l, "armed", "other")
		kindReport(t, l, "armed", "other")
		ctx, cancel := context.WithTimeout(kindContext(t), time.Minute)
		defer cancel()
		if err := l.Wait(ctx); err != nil {
			t.Errorf("all have reported: %v", err)
		}
	})
}

func TestLatchesDoNotCollide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := kindClient(t, memstore.New(nil), nil)
		// Joined by a # their parties would be the same.
		a, b := c.CountDownLatch("a", time.Hour, "b#c", "d"), c.CountDownLatch("a#b", time.Hour, "c", "d")
		for _, l := range []*fencelock.CountDownLatch{a, b} {
			if err := l.Arm(kindContext(t)); err != nil {
				t.Fatal(err)
			}
		}
		kindReport(t, a, "b#c")
		kindRemaining(t, a, "d")
		kindRemaining(t, b, "c", "d")
	})
}

// Somebody who waited for the latch before reads a party still, because the
// store is slow. That must not count as the party being in the way.
func TestLatchIsArmedAgainBesideAnOldWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keep = 10 * time.Second
		m := memstore.New(nil)
		st := tap(m)
		st.onWithdraw = func(ctx context.Context, w driver.Withdrawal, next withdrawFunc) (driver.Removed, error) {
			time.Sleep(2 * time.Second)
			return next(ctx, w)
		}
		slow := kindClient(t, st, nil).CountDownLatch("start", keep, "db")
		l := kindClient(t, m, nil).CountDownLatch("start", keep, "db")
		if err := l.Arm(kindContext(t)); err != nil {
			t.Fatal(err)
		}
		old := kindGo(kindErr(func() error { return slow.Wait(kindContext(t)) }))
		time.Sleep(keep + 500*time.Millisecond) // it has ended, and the waiter reads
		if st := kindStatus(t, m, "start#db"); len(st.Holders) != 1 || st.Holders[0].Kept {
			t.Fatalf("nobody reads: the test shows nothing; %+v", st)
		}
		if err := l.Arm(kindContext(t)); err != nil {
			t.Fatal(err)
		}
		kindRemaining(t, l, "db")
		if _, err := old.wait(); err != nil {
			t.Error(err)
		}
		kindRemaining(t, l, "db")
		kindReport(t, l, "db")
		kindRemaining(t, l)
	})
}
