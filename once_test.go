// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/faultstore"
	"github.com/fencelock/fencelock/memstore"
)

// kindTick runs an occurrence and wants an outcome.
func kindTick(t *testing.T, o *fencelock.Once, occurrence string, want fencelock.OnceOutcome, fn func(context.Context, *fencelock.Lease) error) fencelock.OnceResult {
	t.Helper()
	res, err := o.Do(kindContext(t), occurrence, fn)
	if err != nil || res.Outcome != want {
		t.Fatalf("%s: got %q, %v; want %q", occurrence, res.Outcome, err, want)
	}
	return res
}

func kindNothing(context.Context, *fencelock.Lease) error { return nil }

func TestOnceRunsAnOccurrenceOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		const keep = 10 * time.Minute
		a := kindClient(t, store, kindOwner("a")).Once("report", keep, fencelock.Reason("nightly"))
		b := kindClient(t, store, kindOwner("b")).Once("report", keep)
		running := make(chan struct{})
		finish := make(chan struct{})
		call := kindGo(func() (fencelock.OnceResult, error) {
			return a.Do(kindContext(t), "02:00", func(ctx context.Context, l *fencelock.Lease) error {
				if l.Name() != "report@02:00" || fencelock.FromContext(ctx, "report@02:00") != l {
					t.Errorf("runs under %q", l.Name())
				}
				close(running)
				<-finish
				return nil
			})
		})
		<-running
		for _, o := range []*fencelock.Once{a, b} {
			res := kindTick(t, o, "02:00", fencelock.RunningElsewhere, kindNothing)
			if res.Holder == nil || res.Holder.Record.Owner != "a" || res.Holder.Record.Reason != "nightly" || res.Holder.Kept {
				t.Errorf("running at %+v", res.Holder)
			}
		}
		kindTick(t, b, "02:15", fencelock.Ran, kindNothing) // another occurrence
		close(finish)
		if res, err := call.wait(); err != nil || res.Outcome != fencelock.Ran || res.Holder != nil {
			t.Errorf("got %+v, %v", res, err)
		}
		// The late replica, and the one that ran it.
		time.Sleep(keep - time.Second)
		for _, o := range []*fencelock.Once{b, a} {
			res := kindTick(t, o, "02:00", fencelock.AlreadyRan, kindNothing)
			if res.Holder == nil || res.Holder.Record.Owner != "a" || !res.Holder.Kept {
				t.Errorf("ran at %+v", res.Holder)
			}
		}
		time.Sleep(time.Second) // the mark is kept for keep and not longer
		kindTick(t, b, "02:00", fencelock.Ran, kindNothing)
	})
}

func TestOnceAmongManyReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		var runs atomic.Int64
		var all sync.WaitGroup
		for r := range 10 {
			o := kindClient(t, store, nil).Once("job", time.Minute)
			all.Go(func() {
				for _, tick := range []string{"1", "2", "3"} {
					time.Sleep(time.Duration(r) * time.Second) // their clocks differ
					if _, err := o.Do(kindContext(t), tick, func(context.Context, *fencelock.Lease) error {
						runs.Add(1)
						time.Sleep(time.Millisecond) // a short job: the lock alone would not do
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if n := runs.Load(); n != 3 {
			t.Errorf("three occurrences ran %d times", n)
		}
	})
}

func TestOnceMayRunAgainAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		a, b := kindClient(t, store, nil).Once("job", time.Hour), kindClient(t, store, nil).Once("job", time.Hour)
		own := errors.New("disk full")
		res, err := a.Do(kindContext(t), "1", func(context.Context, *fencelock.Lease) error { return own })
		if res.Outcome != fencelock.Failed || !errors.Is(err, own) {
			t.Errorf("got %q, %v", res.Outcome, err)
		}
		if what := kindPanics(func() {
			_, _ = a.Do(kindContext(t), "1", func(context.Context, *fencelock.Lease) error { panic("fn") })
		}); what != "fn" {
			t.Errorf("panicked with %v, want fn's panic", what)
		}
		kindFree(t, store, "job@1")
		kindTick(t, b, "1", fencelock.Ran, kindNothing)
		kindTick(t, a, "1", fencelock.AlreadyRan, kindNothing)
	})
}

func TestOnceAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keep = time.Hour
		crash := func(store driver.Store, opts ...fencelock.Option) {
			c := kindClient(t, kindFaulty(t, store, `on(keepalive, nth(1, cut(2h)))`), nil)
			res, err := c.Once("job", keep, opts...).Do(kindContext(t), "1", func(ctx context.Context, l *fencelock.Lease) error {
				<-ctx.Done()
				kindIs(t, context.Cause(ctx), fencelock.ErrLost)
				return context.Cause(ctx)
			})
			if res.Outcome != fencelock.Failed || !errors.Is(err, fencelock.ErrLost) {
				t.Errorf("got %q, %v", res.Outcome, err)
			}
			time.Sleep(fencelock.DefaultTTL)
		}
		store := memstore.New(nil)
		o := kindClient(t, store, nil).Once("job", keep)
		crash(store)
		kindTick(t, o, "1", fencelock.Ran, kindNothing)

		// With MinHold it does not run again until that has passed.
		store = memstore.New(nil)
		o = kindClient(t, store, nil).Once("job", keep, fencelock.MinHold(keep))
		began := time.Now()
		crash(store, fencelock.MinHold(keep))
		kindTick(t, o, "1", fencelock.AlreadyRan, kindNothing)
		time.Sleep(keep - time.Since(began))
		kindTick(t, o, "1", fencelock.Ran, kindNothing)
	})
}

// The lease was lost, fn did not notice and came to its end: the caller must
// learn that another may have run it as well.
func TestOnceThatOutlivedItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		o := kindClient(t, kindFaulty(t, store, `on(keepalive, nth(1, cut(30s)))`), nil).Once("job", time.Hour)
		res, err := o.Do(kindContext(t), "1", func(context.Context, *fencelock.Lease) error {
			time.Sleep(time.Minute)
			return nil
		})
		kindIs(t, err, fencelock.ErrLost)
		if res.Outcome != fencelock.Ran {
			t.Errorf("outcome %q", res.Outcome)
		}
	})
}

// The mark must come to the store even if the first answer got lost.
func TestOnceMarkIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		o := kindClient(t, kindFaulty(t, store, `on(withdraw, nth(1, lose(request)))`), nil).Once("job", time.Hour)
		res, err := o.Do(kindContext(t), "1", kindNothing)
		kindIs(t, err, fencelock.ErrUnavailable)
		if res.Outcome != fencelock.Ran {
			t.Errorf("outcome %q", res.Outcome)
		}
		time.Sleep(time.Minute)
		kindTick(t, kindClient(t, store, nil).Once("job", time.Hour), "1", fencelock.AlreadyRan, kindNothing)
	})
}

func TestOnceRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(&memstore.Options{Grace: true})
		c := kindClient(t, store, nil)
		if _, err := c.Once("job", 0).Do(kindContext(t), "1", kindNothing); err == nil {
			t.Error("a mark that is not kept")
		}
		if _, err := c.Once("job", time.Hour).Do(kindContext(t), strings.Repeat("x", 600), kindNothing); err == nil {
			t.Error("a name that is too long")
		}
		poor := kindClient(t, kindCaps{store, func(c *driver.Caps) { c.Hold = false }}, nil)
		_, err := poor.Once("job", time.Hour).Do(kindContext(t), "1", kindNothing)
		kindIs(t, err, fencelock.ErrUnsupported, errors.ErrUnsupported)
		// In grace nobody knows whether it ran: that is neither of the outcomes.
		store.Forget()
		_, err = c.Once("job", time.Hour).Do(kindContext(t), "1", kindNothing)
		if busy := kindBusy(t)(nil, err); !busy.Grace || busy.RetryAfter <= 0 {
			t.Errorf("got %+v, want it to say when grace ends", busy)
		}
	})
}

func TestNamesOfOccurrencesDoNotCollide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := kindClient(t, memstore.New(nil), nil)
		// Joined by an @ they would be the same.
		for _, o := range [][2]string{{"mail", "eu@42"}, {"mail@eu", "42"}, {"mail%40eu", "42"}, {"mail%", "40eu@42"}, {"mail%2540eu", "42"}} {
			kindTick(t, c.Once(o[0], time.Hour), o[1], fencelock.Ran, kindNothing)
		}
		kindTick(t, c.Once("mail@eu", time.Hour), "42", fencelock.AlreadyRan, kindNothing)
	})
}

func TestNestedOnceDoesNotRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := kindClient(t, memstore.New(nil), kindOwner("me"))
		o := c.Once("mail", time.Hour)
		kindTick(t, o, "42", fencelock.Ran, func(ctx context.Context, l *fencelock.Lease) error {
			res, err := o.Do(ctx, "42", func(context.Context, *fencelock.Lease) error {
				t.Error("it runs inside itself")
				return nil
			})
			if err != nil || res.Outcome != fencelock.RunningElsewhere || res.Holder == nil || res.Holder.Record.Owner != "me" {
				t.Errorf("inside itself: %+v, %v", res, err)
			}
			return l.Err()
		})
		kindTick(t, o, "42", fencelock.AlreadyRan, kindNothing)
	})
}

// The store lost its memory while it ran, and the mark is left while the lease is
// being reclaimed: the reclaim must not take its place.
func TestOnceMarkSurvivesALossOfMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := graceful()
		st := tap(m)
		st.onReclaim = func(ctx context.Context, held []driver.Held, last bool, next reclaimFunc) ([]bool, error) {
			time.Sleep(2 * time.Second)
			return next(ctx, held, last)
		}
		c := newClient(t, st, nil)
		o := c.Once("mail", time.Hour)
		keeper := lock(t, c, "keeps its session alive")
		kindTick(t, o, "42", fencelock.Ran, func(context.Context, *fencelock.Lease) error {
			m.Forget()
			time.Sleep(renewal + time.Second)
			if len(st.sent(faultstore.Reclaim)) != 1 {
				t.Error("it is not being reclaimed: the test shows nothing")
			}
			return nil
		})
		time.Sleep(4 * ttl)
		kindTick(t, o, "42", fencelock.AlreadyRan, kindNothing)
		wantHolds(t, m, keeper)
	})
}
