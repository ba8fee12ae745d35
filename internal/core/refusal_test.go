// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

// An occurrence runs once and an election has one leader: an option that lets
// several hold the lock is refused.
func TestReentrantAsIsRefusedWhereOneMustHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), nil)
		me := fencelock.ReentrantAs("me")
		run := func(context.Context, *fencelock.Lease) error { t.Error("it ran"); return nil }
		_, once := c.Once("job", time.Hour, me).Do(ctxb, "1", run)
		elected := c.Election("e", me).Run(ctxb, run)
		for want, err := range map[string]error{
			`fencelock: "job@1": ReentrantAs lets several hold the lock with one token; an occurrence must have one: leave it out`: once,
			`fencelock: "e": ReentrantAs lets several hold the lock with one token; an election must have one: leave it out`:       elected,
		} {
			wantText(t, err, want)
		}
	})
}

func TestReentrantIdIsBoundedAsNamesAre(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), nil)
		for _, bad := range []string{"", strings.Repeat("x", driver.MaxNameBytes+1), "\xff", "a\nb", "\x00"} {
			if _, err := c.Mutex("x", fencelock.ReentrantAs(bad)).TryLock(ctxb); err == nil || !strings.Contains(err.Error(), "the id of ReentrantAs") {
				t.Errorf("%.10q: got %v", bad, err)
			}
		}
		unlock(t, lock(t, c, "x", fencelock.ReentrantAs(strings.Repeat("x", driver.MaxNameBytes))))
	})
}

// Sums of weights must not overflow, nor lose a digit where a store counts in
// floating point.
func TestSemaphoreLimitIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		a, b := newClient(t, store, nil), newClient(t, store, nil)
		const most = 1<<53 - 1
		for _, limit := range []int64{most + 1, 1 << 62, math.MaxInt64} {
			if _, err := a.Semaphore("s", limit).Acquire(ctxb, 1); err == nil {
				t.Errorf("a limit of %d was accepted", limit)
			}
			if err := a.Semaphore("s", 1).SetLimit(ctxb, limit); err == nil {
				t.Errorf("a limit of %d was stored", limit)
			}
		}
		l, err := a.Semaphore("s", most).Acquire(ctxb, most)
		must.OK(t, err)
		if _, err := b.Semaphore("s", most).TryAcquire(ctxb, 1); !errors.Is(err, fencelock.ErrBusy) {
			t.Errorf("one more than the limit: %v", err)
		}
		unlock(t, l)
	})
}

// The options of an inner acquisition do not change the grant it shares.
func TestReenteredLeaseEndsWithTheOuterOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c := newClient(t, store, nil)
		outer := lock(t, c, "x")
		inner, err := c.Mutex("x", fencelock.MaxHold(time.Second), fencelock.MinHold(time.Second)).Lock(outer.Context())
		must.OK(t, err)
		time.Sleep(time.Minute)
		// Two readings of the clock of the machine, which a bubble does not stop, differ.
		if inner.Err() != nil || inner.Deadline().Sub(outer.Deadline()).Abs() > time.Millisecond {
			t.Errorf("inner %v until %v, outer until %v", inner.Err(), inner.Deadline(), outer.Deadline())
		}
		unlock(t, inner)
		unlock(t, outer)
		wantClaims(t, store, "x", 0, 0)
	})
}

// What a caller does to an answer is its own business.
func TestHolderRecordsAreCopies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c, other := newClient(t, store, &fencelock.Options{Labels: map[string]string{"a": "1"}}), newClient(t, store, nil)
		lock(t, c, "x")
		_, here := c.Mutex("x").TryLock(ctxb)
		_, there := other.Mutex("x").TryLock(ctxb)
		for _, err := range []error{here, there} {
			var busy *fencelock.BusyError
			if !errors.As(err, &busy) {
				t.Fatal(err)
			}
			busy.Holders[0].Record.Labels["mine"] = "2"
		}
		lock(t, c, "y")
		for _, name := range []string{"x", "y"} {
			if labels := status(t, store, name).Holders[0].Record.Labels; len(labels) != 1 {
				t.Errorf("%s has labels %v", name, labels)
			}
		}
	})
}

func TestRecordsAreUTF8(t *testing.T) {
	bubble(t, func(t *testing.T) {
		if _, err := fencelock.New(newStore(), &fencelock.Options{Owner: "a\xff"}); err == nil {
			t.Error("took an owner that is not UTF-8")
		}
		c := newClient(t, newStore(), nil)
		for _, bad := range []fencelock.LockOption{fencelock.Reason("\xff"), fencelock.Label("\xff", ""), fencelock.Label("k", "\xff")} {
			if _, err := c.Mutex("x", bad).TryLock(ctxb); err == nil || !strings.Contains(err.Error(), "must be UTF-8") {
				t.Errorf("got %v", err)
			}
		}
	})
}

// The reason of another process must not look like a second line of a log.
func TestErrorsQuoteControlCharacters(t *testing.T) {
	busy := &fencelock.BusyError{Name: "x", Holders: []fencelock.Holder{
		{Record: fencelock.Record{Owner: "a\x1b[2J", Reason: "b\nlevel=ERROR"}}}}
	wantText(t, busy, `fencelock: "x" is held by "a\x1b[2J" ("b\nlevel=ERROR")`)
}

// The helper must not deadlock with what runs beside it.
func TestLinesBesideAcquisitions(t *testing.T) {
	c := newClient(t, newStore(), nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				ctx, cancel := context.WithCancel(ctxb)
				cancel()
				_, _ = c.Mutex("x").Lock(ctx)
				unlock(t, lock(t, c, "y"))
				coreOf(c).Queues()
			}
		})
	}
	wg.Wait()
}

func TestZeroOptionChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), nil)
		unlock(t, lock(t, c, "x", fencelock.LockOption{}))
		synctest.Wait()
	})
}
