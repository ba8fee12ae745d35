// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/store/memstore"
)

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
		locktest.Tick(t, locktest.Client(t, store, opts).Once("job", time.Hour), "1", fencelock.OnceRan, locktest.Nothing)
		if took := time.Since(began); took < graceTime || took > graceTime+graceTime/10 {
			t.Errorf("it ran after %v, want soon after %v", took, graceTime)
		}
		if waits != 1 || acquisitions != 1 {
			t.Errorf("%d waits reported in %d acquisitions, want one of each", waits, acquisitions)
		}
		locktest.Tick(t, locktest.Client(t, store, nil).Once("job", time.Hour), "1", fencelock.OnceAlreadyRan, locktest.Nothing)
	})
}

// Several replicas wait, and one of them runs it.
func TestOnceAfterAGracePeriodRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := resting()
		outcomes := make(chan fencelock.OnceOutcome)
		for range 3 {
			c := locktest.Client(t, store, nil)
			go func() {
				res, err := c.Once("job", time.Hour).Do(context.Background(), "1", locktest.Nothing)
				if err != nil {
					t.Error(err)
				}
				outcomes <- res.Outcome
			}()
		}
		ran := 0
		for range 3 {
			if <-outcomes == fencelock.OnceRan {
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
			if res.Outcome != fencelock.OnceNotRun || !errors.As(err, &grace) || grace.RetryAfter <= 0 {
				t.Errorf("after %v: %v, %v", wait, res.Outcome, err)
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
