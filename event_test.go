// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

func TestHooksSeeEveryTransition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		var events locktest.Events
		c := locktest.Client(t, store, &fencelock.Options{Owner: "c", Hooks: events.Hooks()})
		other := locktest.Client(t, store, locktest.Owner("other"))

		l := locktest.Got(t)(c.Mutex("x").Lock(ctx))
		events.Want(t, "session opened", "lease granted x 256")
		next := locktest.Go(func() (*fencelock.Lease, error) { return c.Mutex("x").Lock(ctx) })
		events.Want(t, "lease waiting x held by c")
		locktest.Unlock(t, l)
		l = next.Now(t, "passed on")
		events.Want(t, "lease released x 256", "lease handed off x 257")
		remote := locktest.Go(func() (*fencelock.Lease, error) { return other.Mutex("x").Lock(ctx) })
		locktest.Unlock(t, l)
		events.Want(t, "lease released x 257")

		next = locktest.Go(func() (*fencelock.Lease, error) { return c.Mutex("x").Lock(ctx) })
		events.Want(t, "lease waiting x held by other")
		locktest.Unlock(t, remote.Now(t, "first in the queue"))
		l = next.Now(t, "first in the queue")
		events.Want(t, "lease granted x 768")
		time.Sleep(10 * time.Minute) // many renewals, no event
		events.Want(t)

		if _, err := other.ForceUnlock(ctx, "x", l.Token()); err != nil {
			t.Fatal(err)
		}
		locktest.Ended(t, l.Context())
		synctest.Wait()
		events.Want(t, "lease lost x 768", "claim withdrawn x") // in this order: the holder is notified first
		time.Sleep(time.Minute)
		events.Want(t, "session closed")
	})
}

func TestEventsReportDurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		var events locktest.Events
		c := locktest.Client(t, store, &fencelock.Options{Hooks: events.Hooks()})
		other := locktest.Client(t, store, nil)
		time.Sleep(time.Hour)
		took := func(kind fencelock.EventKind) time.Duration {
			t.Helper()
			seen := events.All()
			i := slices.IndexFunc(seen, func(e fencelock.Event) bool { return e.Kind == kind })
			if i < 0 {
				t.Fatalf("no event %q", kind)
			}
			d := seen[i].Waited + seen[i].Held // one of them is 0
			events.Take()
			return d.Round(time.Millisecond) // the clock counts suspends, to the nanosecond
		}
		l := locktest.Got(t)(c.Mutex("x").TryLock(ctx))
		if d := took(fencelock.LeaseGranted); d != 0 {
			t.Errorf("a try that got it at once waited %v", d)
		}
		time.Sleep(3 * time.Second)
		locktest.Unlock(t, l)
		if d := took(fencelock.LeaseReleased); d != 3*time.Second {
			t.Errorf("held %v, want 3s", d)
		}
		o := locktest.Got(t)(other.Mutex("x").Lock(ctx))
		waiting := locktest.Go(func() (*fencelock.Lease, error) { return c.Mutex("x").Lock(ctx) })
		time.Sleep(2 * time.Second)
		locktest.Unlock(t, o)
		locktest.Unlock(t, waiting.Now(t, "first in the queue"))
		if d := took(fencelock.LeaseGranted); d != 2*time.Second {
			t.Errorf("waited %v, want 2s", d)
		}
	})
}

// A program that counts leases by events must come back to zero: every lease begins
// with one event and ends with one, except leases that re-entered, which have none.
func TestEveryLeaseHasABeginningAndAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		var events locktest.Events
		c := locktest.Client(t, store, &fencelock.Options{Hooks: events.Hooks()})
		other := locktest.Client(t, store, nil)
		held := func() (n int) {
			for _, e := range events.All() {
				switch e.Kind {
				case fencelock.LeaseGranted, fencelock.LeaseHandedOff:
					n++
				case fencelock.LeaseReleased, fencelock.LeaseLost:
					n--
				}
			}
			return n
		}
		outer := locktest.Got(t)(c.Mutex("x").Lock(ctx))
		inner := locktest.Got(t)(c.Mutex("x").Lock(outer.Context()))
		if n := held(); n != 1 {
			t.Errorf("%d leases by the events while one has re-entered, want 1", n)
		}
		locktest.Unlock(t, inner, outer)
		if n := held(); n != 0 {
			t.Errorf("%d leases by the events after re-entry, want 0", n)
		}
		w := locktest.Got(t)(other.Mutex("x").Lock(ctx))
		var readers []*locktest.Call[*fencelock.Lease]
		for range 3 {
			readers = append(readers, locktest.Go(func() (*fencelock.Lease, error) { return c.RWMutex("x").RLock(ctx) }))
		}
		before := held()
		locktest.Unlock(t, w)
		if n := held() - before; n != 3 {
			t.Errorf("%d leases by the events while three read together, want 3", n)
		}
		for _, r := range readers {
			locktest.Unlock(t, r.Now(t, "read together"))
		}
		if n := held() - before; n != 0 {
			t.Errorf("%d leases by the events after reading together, want 0", n)
		}
	})
}

func TestAcquireHooksComeInPairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var got []string
		hooks := fencelock.Hooks{
			AcquireStart: func(ctx context.Context, s fencelock.AcquireStart) context.Context {
				got = append(got, fmt.Sprintf("start %s %v %s try=%v", s.Name, s.Mode, s.Server, s.Try))
				return context.WithValue(ctx, key{}, s.Name)
			},
			AcquireEnd: func(ctx context.Context, e fencelock.AcquireEnd) {
				got = append(got, fmt.Sprintf("end %v %v waited=%v held=%v busy=%v late=%v", ctx.Value(key{}), e.Mode, e.Waited,
					e.Lease != nil, errors.Is(e.Err, fencelock.ErrBusy), errors.Is(e.Err, context.DeadlineExceeded)))
			},
		}
		store := memstore.New(nil)
		other := locktest.Got(t)(locktest.Client(t, store, nil).Mutex("y").Lock(locktest.Context(t)))
		c := locktest.Client(t, store, &fencelock.Options{Hooks: hooks})
		l := locktest.Got(t)(c.Mutex("x").Lock(locktest.Context(t)))
		if l.Context().Value(key{}) != "x" {
			t.Error("the acquisition did not go on with the context of AcquireStart")
		}
		locktest.Unlock(t, l)
		locktest.Busy(t)(c.RWMutex("y").TryRLock(locktest.Context(t)))
		short, cancel := context.WithTimeout(locktest.Context(t), 2*time.Second)
		defer cancel()
		_, err := c.Mutex("y").Lock(short)
		locktest.Is(t, err, context.DeadlineExceeded)
		locktest.Unlock(t, other)
		want := []string{
			"start x exclusive memory try=false", "end x exclusive waited=0s held=true busy=false late=false",
			"start y shared memory try=true", "end y shared waited=0s held=false busy=true late=false",
			"start y exclusive memory try=false", "end y exclusive waited=2s held=false busy=false late=true",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	})
}

// A tracer must know which acquisition waits: an event has no context.
func TestAcquireWaitHasTheContextOfItsAcquisition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var waits []string
		hooks := fencelock.Hooks{
			AcquireStart: func(ctx context.Context, s fencelock.AcquireStart) context.Context {
				return context.WithValue(ctx, key{}, "wants "+s.Name)
			},
			AcquireWait: func(ctx context.Context, w fencelock.AcquireWait) {
				waits = append(waits, fmt.Sprintf("%v: %s is held by %s, %d before", ctx.Value(key{}), w.Name, w.Holder.Record.Owner, w.Position))
			},
		}
		store := memstore.New(nil)
		c := locktest.Client(t, store, &fencelock.Options{Owner: "c", Hooks: hooks})
		other := locktest.Got(t)(locktest.Client(t, store, locktest.Owner("other")).Mutex("x").Lock(locktest.Context(t)))
		locktest.Unlock(t, locktest.Got(t)(c.Mutex("free").Lock(locktest.Context(t))))
		locktest.Busy(t)(c.Mutex("x").TryLock(locktest.Context(t)))
		first := locktest.Go(func() (*fencelock.Lease, error) { return c.Mutex("x").Lock(locktest.Context(t)) })
		time.Sleep(time.Minute) // many polls, reported once
		locktest.Unlock(t, other)
		l := first.Now(t, "first in the queue")
		second := locktest.Go(func() (*fencelock.Lease, error) { return c.Mutex("x").Lock(locktest.Context(t)) })
		synctest.Wait()
		locktest.Unlock(t, l)
		locktest.Unlock(t, second.Now(t, "first in the queue"))
		want := []string{"wants x: x is held by other, 0 before", "wants x: x is held by c, 0 before"}
		if !slices.Equal(waits, want) {
			t.Errorf("got\n  %s\nwant\n  %s", strings.Join(waits, "\n  "), strings.Join(want, "\n  "))
		}
	})
}

func TestLogHasTransitionsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		logger, buf := locktest.Log(slog.LevelDebug)
		c, err := fencelock.New(store, &fencelock.Options{Logger: logger})
		must.OK(t, err)
		other := locktest.Got(t)(locktest.Client(t, store, locktest.Owner("other")).Mutex("x", fencelock.Reason("nightly")).Lock(ctx))
		waiting := locktest.Go(func() (*fencelock.Lease, error) { return c.Mutex("x").Lock(ctx) })
		time.Sleep(2 * time.Second)
		locktest.Unlock(t, other)
		l := waiting.Now(t, "first in the queue")
		time.Sleep(2 * time.Hour) // a thousand renewals
		locktest.Unlock(t, l)
		l = locktest.Got(t)(c.Mutex("x", fencelock.MaxHold(time.Minute)).Lock(ctx))
		locktest.Ended(t, l.Context())
		time.Sleep(time.Minute) // the store has ended it too
		synctest.Wait()
		must.OK(t, c.Close(ctx))
		want := `level=INFO msg="fencelock: session opened" server=memory shard=0
level=DEBUG msg="fencelock: lease waiting" server=memory shard=0 lock=x holder=other reason=nightly
level=DEBUG msg="fencelock: lease granted" server=memory shard=0 lock=x token=512 waited=2s
level=DEBUG msg="fencelock: lease released" server=memory shard=0 lock=x token=512 held=2h0m0s
level=DEBUG msg="fencelock: lease granted" server=memory shard=0 lock=x token=768
level=WARN msg="fencelock: lease lost" server=memory shard=0 lock=x token=768 held=57.9s err="fencelock: lease lost: lease reached its end"
level=DEBUG msg="fencelock: claim withdrawn" server=memory shard=0 lock=x
level=INFO msg="fencelock: session closed" server=memory shard=0
`
		if got := buf.String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

func TestLogOfALostSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		logger, buf := locktest.Log(slog.LevelInfo)
		c := locktest.Client(t, locktest.Faulty(t, store, `on(keepalive, after(2, refuse))`), &fencelock.Options{Logger: logger})
		l := locktest.Got(t)(c.Mutex("x").Lock(locktest.Context(t)))
		locktest.Ended(t, l.Context())
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(buf.String()), "\n")
		failed := slices.DeleteFunc(slices.Clone(lines), func(s string) bool { return !strings.Contains(s, "session renewal failed") })
		if len(failed) == 0 || !strings.Contains(failed[0], driver.ErrUnavailable.Error()) {
			t.Errorf("the renewals that failed are not there, or do not say why:\n%s", buf)
		}
		rest := slices.DeleteFunc(lines, func(s string) bool { return strings.Contains(s, "session renewal failed") })
		want := []string{"INFO session opened", "WARN session lost", "WARN lease lost"}
		for i, s := range rest {
			if level, msg, _ := strings.Cut(want[min(i, len(want)-1)], " "); !strings.Contains(s, level) || !strings.Contains(s, msg) {
				t.Errorf("line %d: got %s, want %s", i, s, want[min(i, len(want)-1)])
			}
		}
		if len(rest) != len(want) {
			t.Errorf("got %d other lines, want %d:\n%s", len(rest), len(want), buf)
		}
	})
}
