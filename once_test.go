// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

func TestOnceRunsAnOccurrenceOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		const keep = 10 * time.Minute
		a := locktest.Client(t, store, locktest.Owner("a")).Once("report", keep, fencelock.Reason("nightly"))
		b := locktest.Client(t, store, locktest.Owner("b")).Once("report", keep)
		running := make(chan struct{})
		finish := make(chan struct{})
		call := locktest.Go(func() (fencelock.OnceResult, error) {
			return a.Do(locktest.Context(t), "02:00", func(ctx context.Context, l *fencelock.Lease) error {
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
			res := locktest.Tick(t, o, "02:00", "running elsewhere", locktest.Nothing)
			if res.Holder == nil || res.Holder.Record.Owner != "a" || res.Holder.Record.Reason != "nightly" || res.Holder.Kept {
				t.Errorf("running at %+v", res.Holder)
			}
		}
		locktest.Tick(t, b, "02:15", "ran", locktest.Nothing) // another occurrence
		close(finish)
		if res, err := call.Wait(); err != nil || res.String() != "ran" || res.Holder != nil {
			t.Errorf("got %+v, %v", res, err)
		}
		// The late replica, and the one that ran it.
		time.Sleep(keep - time.Second)
		for _, o := range []*fencelock.Once{b, a} {
			res := locktest.Tick(t, o, "02:00", "already ran", locktest.Nothing)
			if res.Holder == nil || res.Holder.Record.Owner != "a" || !res.Holder.Kept {
				t.Errorf("ran at %+v", res.Holder)
			}
		}
		time.Sleep(time.Second) // the mark is kept for keep and not longer
		locktest.Tick(t, b, "02:00", "ran", locktest.Nothing)
	})
}

func TestOnceAmongManyReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		var runs atomic.Int64
		var all sync.WaitGroup
		for r := range 10 {
			o := locktest.Client(t, store, nil).Once("job", time.Minute)
			all.Go(func() {
				for _, tick := range []string{"1", "2", "3"} {
					time.Sleep(time.Duration(r) * time.Second) // their clocks differ
					if _, err := o.Do(locktest.Context(t), tick, func(context.Context, *fencelock.Lease) error {
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
		a, b := locktest.Client(t, store, nil).Once("job", time.Hour), locktest.Client(t, store, nil).Once("job", time.Hour)
		own := errors.New("disk full")
		res, err := a.Do(locktest.Context(t), "1", func(context.Context, *fencelock.Lease) error { return own })
		if res.String() != "failed" || !errors.Is(err, own) {
			t.Errorf("got %q, %v", res, err)
		}
		if what := locktest.Panics(func() {
			_, _ = a.Do(locktest.Context(t), "1", func(context.Context, *fencelock.Lease) error { panic("fn") })
		}); what != "fn" {
			t.Errorf("panicked with %v, want fn's panic", what)
		}
		locktest.Free(t, store, "job@1")
		locktest.Tick(t, b, "1", "ran", locktest.Nothing)
		locktest.Tick(t, a, "1", "already ran", locktest.Nothing)
	})
}

func TestOnceAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keep = time.Hour
		crash := func(store driver.Store, opts ...fencelock.LockOption) {
			c := locktest.Client(t, locktest.Faulty(t, store, `on(keepalive, nth(1, cut(2h)))`), nil)
			res, err := c.Once("job", keep, opts...).Do(locktest.Context(t), "1", func(ctx context.Context, l *fencelock.Lease) error {
				<-ctx.Done()
				locktest.Is(t, context.Cause(ctx), fencelock.ErrLost)
				return context.Cause(ctx)
			})
			if res.String() != "failed" || !errors.Is(err, fencelock.ErrLost) {
				t.Errorf("got %q, %v", res, err)
			}
			time.Sleep(fencelock.DefaultTTL)
		}
		store := memstore.New(nil)
		o := locktest.Client(t, store, nil).Once("job", keep)
		crash(store)
		locktest.Tick(t, o, "1", "ran", locktest.Nothing)

		// With MinHold it does not run again until that has passed.
		store = memstore.New(nil)
		o = locktest.Client(t, store, nil).Once("job", keep, fencelock.MinHold(keep))
		began := time.Now()
		crash(store, fencelock.MinHold(keep))
		locktest.Tick(t, o, "1", "already ran", locktest.Nothing)
		time.Sleep(keep - time.Since(began))
		locktest.Tick(t, o, "1", "ran", locktest.Nothing)
	})
}

// The lease was lost, fn did not notice and came to its end: the caller must
// learn that another may have run it as well.
func TestOnceThatOutlivedItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		o := locktest.Client(t, locktest.Faulty(t, store, `on(keepalive, nth(1, cut(30s)))`), nil).Once("job", time.Hour)
		res, err := o.Do(locktest.Context(t), "1", func(context.Context, *fencelock.Lease) error {
			time.Sleep(time.Minute)
			return nil
		})
		locktest.Is(t, err, fencelock.ErrLost)
		if res.String() != "ran" {
			t.Errorf("outcome %q", res)
		}
	})
}

// The mark must come to the store even if the first answer got lost.
func TestOnceMarkIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		o := locktest.Client(t, locktest.Faulty(t, store, `on(withdraw, nth(1, lose(request)))`), nil).Once("job", time.Hour)
		res, err := o.Do(locktest.Context(t), "1", locktest.Nothing)
		locktest.Is(t, err, fencelock.ErrUnavailable)
		if res.String() != "ran" {
			t.Errorf("outcome %q", res)
		}
		time.Sleep(time.Minute)
		locktest.Tick(t, locktest.Client(t, store, nil).Once("job", time.Hour), "1", "already ran", locktest.Nothing)
	})
}

func TestOnceRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(&memstore.Options{Grace: true})
		c := locktest.Client(t, store, nil)
		if _, err := c.Once("job", 0).Do(locktest.Context(t), "1", locktest.Nothing); err == nil {
			t.Error("a mark that is not kept")
		}
		if _, err := c.Once("job", time.Hour).Do(locktest.Context(t), strings.Repeat("x", 600), locktest.Nothing); err == nil {
			t.Error("a name that is too long")
		}
		poor := locktest.Client(t, locktest.Caps(store, func(c *driver.Caps) { c.Hold = false }), nil)
		_, err := poor.Once("job", time.Hour).Do(locktest.Context(t), "1", locktest.Nothing)
		locktest.Is(t, err, fencelock.ErrUnsupported, errors.ErrUnsupported)
	})
}

func TestNamesOfOccurrencesDoNotCollide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.Client(t, memstore.New(nil), nil)
		// Joined by an @ they would be the same.
		for _, o := range [][2]string{{"mail", "eu@42"}, {"mail@eu", "42"}, {"mail%40eu", "42"}, {"mail%", "40eu@42"}, {"mail%2540eu", "42"}} {
			locktest.Tick(t, c.Once(o[0], time.Hour), o[1], "ran", locktest.Nothing)
		}
		locktest.Tick(t, c.Once("mail@eu", time.Hour), "42", "already ran", locktest.Nothing)
	})
}

func TestNestedOnceDoesNotRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.Client(t, memstore.New(nil), locktest.Owner("me"))
		o := c.Once("mail", time.Hour)
		locktest.Tick(t, o, "42", "ran", func(ctx context.Context, l *fencelock.Lease) error {
			res, err := o.Do(ctx, "42", func(context.Context, *fencelock.Lease) error {
				t.Error("it runs inside itself")
				return nil
			})
			if err != nil || res.String() != "running elsewhere" || res.Holder == nil || res.Holder.Record.Owner != "me" {
				t.Errorf("inside itself: %+v, %v", res, err)
			}
			return l.Err()
		})
		locktest.Tick(t, o, "42", "already ran", locktest.Nothing)
	})
}

// Only the occurrence itself is not re-entered. The lease of an occurrence has the other
// leases of its caller, for those that lock again and for guards.
func TestLeaseOfAnOccurrenceCarriesTheLeasesOfItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.Client(t, memstore.New(nil), nil)
		err := c.Do(locktest.Context(t), "outer", func(ctx context.Context, outer *fencelock.Lease) error {
			locktest.Tick(t, c.Once("job", time.Hour), "before", "ran", locktest.Nothing)
			res, err := c.Once("job", time.Hour).Do(ctx, "1", func(_ context.Context, l *fencelock.Lease) error {
				if fencelock.FromContext(l.Context(), "outer") != outer {
					t.Error("Lease.Context does not carry the lease of the context that the lease was acquired with")
				}
				again, err := c.Mutex("outer").TryLock(l.Context())
				if err != nil {
					return err
				}
				return again.Unlock(ctx)
			})
			if res.String() != "ran" {
				t.Errorf("outcome %q", res)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// An occurrence that is free before it has ended may run at another process, and nothing is
// left that the mark could be left on.
func TestOnceReportsThatItsLeaseWasUnlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		o := locktest.Client(t, store, nil).Once("job", time.Hour)
		res, err := o.Do(locktest.Context(t), "1", func(ctx context.Context, l *fencelock.Lease) error { return l.Unlock(ctx) })
		locktest.Is(t, err, fencelock.ErrLost, fencelock.ErrReleased)
		if want := `fencelock: unlock "job@1" (memory): lease lost: no mark was left: lease released; the function unlocked its lease, so the occurrence has no mark ` +
			`and may run again: leave the unlock to Once`; res.String() != "ran" || fmt.Sprint(err) != want {
			t.Errorf("got %q, %v\nwant %s", res, err, want)
		}
		locktest.Tick(t, o, "1", "ran", locktest.Nothing)
		own := errors.New("disk full")
		res, err = o.Do(locktest.Context(t), "2", func(ctx context.Context, l *fencelock.Lease) error { return errors.Join(own, l.Unlock(ctx)) })
		if res.String() != "failed" || !errors.Is(err, own) || errors.Is(err, fencelock.ErrLost) {
			t.Errorf("a function that failed leaves no mark anyway: %q, %v", res, err)
		}
	})
}

// Close gives the lock back while the function still runs, so the mark is missing.
func TestOnceReportsACloseWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c, err := fencelock.New(store, nil)
		must.OK(t, err)
		res, err := c.Once("job", time.Hour).Do(locktest.Context(t), "1", func(context.Context, *fencelock.Lease) error {
			return c.Close(locktest.Context(t))
		})
		locktest.Is(t, err, fencelock.ErrLost, fencelock.ErrClosed)
		if res.String() != "ran" {
			t.Errorf("outcome %q", res)
		}
		locktest.Tick(t, locktest.Client(t, store, nil).Once("job", time.Hour), "1", "ran", locktest.Nothing)
	})
}

// TestOnceReportsAMarkThatCloseTookAway: the store closes the session before the
// withdrawal that would leave the mark gets there.
func TestOnceReportsAMarkThatCloseTookAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c, err := fencelock.New(locktest.Faulty(t, store, "on(withdraw, delay(1s, 0s))"), nil)
		must.OK(t, err)
		time.AfterFunc(500*time.Millisecond, func() { c.Close(context.Background()) })
		res, err := c.Once("job", time.Hour).Do(locktest.Context(t), "1", locktest.Nothing)
		if res.String() != "ran" || !errors.Is(err, fencelock.ErrLost) || !errors.Is(err, fencelock.ErrClosed) {
			t.Errorf("got %v, %v; the mark is not left, so the error is ErrLost", res, err)
		}
		locktest.Tick(t, locktest.Client(t, store, nil).Once("job", time.Hour), "1", "ran", locktest.Nothing)
	})
}

// TestOnceEnd: the hook gets what Do returns, and a panic as a failure.
func TestOnceEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends []fencelock.OnceEnd
		c := locktest.Client(t, memstore.New(nil), &fencelock.Options{Hooks: fencelock.Hooks{
			OnceEnd: func(_ context.Context, e fencelock.OnceEnd) { ends = append(ends, e) },
		}})
		once := c.Once("report", time.Hour)
		failure := errors.New("no disk")
		run := func(occurrence string, err error) func() {
			return func() {
				once.Do(t.Context(), occurrence, func(context.Context, *fencelock.Lease) error {
					time.Sleep(time.Minute)
					if err == nil && occurrence == "panics" {
						panic("no disk")
					}
					return err
				})
			}
		}
		run("1", nil)()
		run("1", nil)()
		run("2", failure)()
		locktest.Panics(run("panics", nil))
		c.Once("bad", -1).Do(t.Context(), "1", locktest.Nothing)
		for i, want := range []fencelock.OnceEnd{
			{Name: "report", Occurrence: "1", Result: fencelock.OnceResult{Ran: true, Done: true}, Took: time.Minute},
			{Name: "report", Occurrence: "1", Result: fencelock.OnceResult{Done: true}},
			{Name: "report", Occurrence: "2", Result: fencelock.OnceResult{Ran: true}, Took: time.Minute, Err: failure},
			{Name: "report", Occurrence: "panics", Result: fencelock.OnceResult{Ran: true}, Took: time.Minute},
			{Name: "bad", Occurrence: "1"},
		} {
			if i >= len(ends) {
				t.Fatalf("%d calls of the hook", len(ends))
			}
			got := ends[i]
			if got.Name != want.Name || got.Occurrence != want.Occurrence || got.Result.Ran != want.Result.Ran || got.Result.Done != want.Result.Done || got.Took != want.Took ||
				(got.Result.Holder != nil) != (want.Result.Done && !want.Result.Ran) || want.Err != nil && !errors.Is(got.Err, want.Err) ||
				(got.Err != nil) != (want.Err != nil || want.Name == "bad") {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		}
	})
}

// graceTime is how long the grace period of resting is: longer than a TTL, so that a wait polls.
const graceTime = time.Minute

// resting returns a store at the beginning of its grace period, which a later data loss begins again.
func resting() *memstore.Store {
	store := memstore.New(&memstore.Options{Grace: true, MaxTTL: graceTime})
	store.Reset()
	return store
}

// A job that is due in the minute after a failover must not be dropped.
func TestOnceWaitsForTheEndOfAGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, began := resting(), time.Now()
		var waits, acquisitions int
		opts := &fencelock.Options{Hooks: fencelock.Hooks{
			AcquireEnd: func(context.Context, fencelock.AcquireEnd) { acquisitions++ },
			Event: func(e fencelock.Event) {
				if e.Kind == fencelock.LeaseWaiting && e.Grace > 0 {
					waits++
				}
			}}}
		locktest.Tick(t, locktest.Client(t, store, opts).Once("job", time.Hour), "1", "ran", locktest.Nothing)
		if took := time.Since(began); took < graceTime || took > graceTime+graceTime/10 {
			t.Errorf("it ran after %v, want soon after %v", took, graceTime)
		}
		if waits != 1 || acquisitions != 1 {
			t.Errorf("%d waits reported in %d acquisitions, want one of each", waits, acquisitions)
		}
		locktest.Tick(t, locktest.Client(t, store, nil).Once("job", time.Hour), "1", "already ran", locktest.Nothing)
	})
}

// Several replicas wait, and one of them runs it.
func TestOnceAfterAGracePeriodRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := resting()
		results := make(chan fencelock.OnceResult)
		for range 3 {
			c := locktest.Client(t, store, nil)
			go func() {
				res, err := c.Once("job", time.Hour).Do(context.Background(), "1", locktest.Nothing)
				if err != nil {
					t.Error(err)
				}
				results <- res
			}()
		}
		ran := 0
		for range 3 {
			if (<-results).Ran {
				ran++
			}
		}
		if ran != 1 {
			t.Errorf("it ran %d times", ran)
		}
	})
}

// During the grace period it is unknown whether the occurrence ran: Do returns no outcome.
func TestOnceThatCannotOutlastAGracePeriodSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.Client(t, resting(), nil)
		why := errors.New("shutting down")
		for _, wait := range []time.Duration{time.Second, 20 * time.Second, graceTime} { // the last within the spread of the polls
			ctx, cancel := context.WithTimeoutCause(t.Context(), wait, why)
			defer cancel()
			res, err := c.Once("job", time.Hour).Do(ctx, "1", func(context.Context, *fencelock.Lease) error {
				t.Error("it ran")
				return nil
			})
			locktest.Is(t, err, fencelock.ErrGrace, context.DeadlineExceeded, why)
			var grace *fencelock.GraceError
			if res.String() != "not run" || !errors.As(err, &grace) || grace.RetryAfter <= 0 {
				t.Errorf("after %v: %v, %v", wait, res, err)
			}
			c = locktest.Client(t, resting(), nil)
		}
	})
}

func TestCloseEndsTheWaitOfOnceForAGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.Client(t, resting(), nil)
		answer := make(chan error)
		go func() {
			_, err := c.Once("job", time.Hour).Do(context.Background(), "1", locktest.Nothing)
			answer <- err
		}()
		time.Sleep(time.Second)
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		select {
		case err := <-answer:
			locktest.Is(t, err, fencelock.ErrClosed)
		default:
			t.Error("it waits on")
		}
	})
}
