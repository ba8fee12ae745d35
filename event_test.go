// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/memstore"
)

// kindEvents collects events as lines: kind, lock, token.
type kindEvents struct {
	mu   sync.Mutex
	seen []fencelock.Event
}

func (e *kindEvents) hooks() fencelock.Hooks {
	return fencelock.Hooks{Event: func(ev fencelock.Event) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.seen = append(e.seen, ev)
	}}
}

// take returns what has happened since the last take.
func (e *kindEvents) take() (lines []string) {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.seen {
		line := ev.Kind.String()
		if ev.Name != "" {
			line += " " + ev.Name
		}
		if ev.Token != 0 {
			line += " " + ev.Token.String()
		}
		if ev.Holder != nil {
			line += " held by " + ev.Holder.Record.Owner
		}
		lines = append(lines, line)
	}
	e.seen = nil
	return lines
}

func (e *kindEvents) want(t *testing.T, want ...string) {
	t.Helper()
	if got := e.take(); !slices.Equal(got, want) {
		t.Errorf("got events\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestHooksSeeEveryTransition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		var events kindEvents
		c := kindClient(t, store, &fencelock.Options{Owner: "c", Hooks: events.hooks()})
		other := kindClient(t, store, kindOwner("other"))

		l := kindGot(t)(c.Mutex("x").Lock(ctx))
		events.want(t, "session opened", "lease granted x 256")
		next := kindGo(func() (*fencelock.Lease, error) { return c.Mutex("x").Lock(ctx) })
		events.want(t, "lease waiting x held by c")
		kindUnlock(t, l)
		l = next.now(t, "passed on")
		events.want(t, "lease released x 256", "lease passed x 257")
		remote := kindGo(func() (*fencelock.Lease, error) { return other.Mutex("x").Lock(ctx) })
		kindUnlock(t, l)
		events.want(t, "lease released x 257")

		next = kindGo(func() (*fencelock.Lease, error) { return c.Mutex("x").Lock(ctx) })
		events.want(t, "lease waiting x held by other")
		kindUnlock(t, remote.now(t, "its turn"))
		l = next.now(t, "its turn")
		events.want(t, "lease granted x 768")
		time.Sleep(10 * time.Minute) // many renewals, no event
		events.want(t)

		if _, err := other.Break(ctx, "x", l.Token()); err != nil {
			t.Fatal(err)
		}
		kindEnded(t, l.Context())
		synctest.Wait()
		events.want(t, "lease lost x 768", "claim settled x") // in this order: told first
		time.Sleep(time.Minute)
		events.want(t, "session closed")
	})
}

func TestEventsSayHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		var events kindEvents
		c := kindClient(t, store, &fencelock.Options{Hooks: events.hooks()})
		other := kindClient(t, store, nil)
		time.Sleep(time.Hour)
		took := func(kind fencelock.EventKind) time.Duration {
			t.Helper()
			synctest.Wait()
			events.mu.Lock()
			defer events.mu.Unlock()
			i := slices.IndexFunc(events.seen, func(e fencelock.Event) bool { return e.Kind == kind })
			if i < 0 {
				t.Fatalf("no event %q", kind)
			}
			d := events.seen[i].Took
			events.seen = nil
			return d.Round(time.Millisecond) // the clock counts suspends, to the nanosecond
		}
		l := kindGot(t)(c.Mutex("x").TryLock(ctx))
		if d := took(fencelock.LeaseGranted); d != 0 {
			t.Errorf("a try that got it at once waited %v", d)
		}
		time.Sleep(3 * time.Second)
		kindUnlock(t, l)
		if d := took(fencelock.LeaseReleased); d != 3*time.Second {
			t.Errorf("held %v, want 3s", d)
		}
		o := kindGot(t)(other.Mutex("x").Lock(ctx))
		waiting := kindGo(func() (*fencelock.Lease, error) { return c.Mutex("x").Lock(ctx) })
		time.Sleep(2 * time.Second)
		kindUnlock(t, o)
		kindUnlock(t, waiting.now(t, "its turn"))
		if d := took(fencelock.LeaseGranted); d != 2*time.Second {
			t.Errorf("waited %v, want 2s", d)
		}
	})
}

// Whoever counts leases by events must come to zero: every lease begins with
// one event and ends with one, but for those that re-entered, which have none.
func TestEveryLeaseHasABeginningAndAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		var events kindEvents
		c := kindClient(t, store, &fencelock.Options{Hooks: events.hooks()})
		other := kindClient(t, store, nil)
		held := func() (n int) {
			synctest.Wait()
			events.mu.Lock()
			defer events.mu.Unlock()
			for _, e := range events.seen {
				switch e.Kind {
				case fencelock.LeaseGranted, fencelock.LeasePassed:
					n++
				case fencelock.LeaseReleased, fencelock.LeaseLost:
					n--
				}
			}
			return n
		}
		outer := kindGot(t)(c.Mutex("x").Lock(ctx))
		inner := kindGot(t)(c.Mutex("x").Lock(outer.Context()))
		if n := held(); n != 1 {
			t.Errorf("%d leases by the events while one has re-entered, want 1", n)
		}
		kindUnlock(t, inner, outer)
		if n := held(); n != 0 {
			t.Errorf("%d leases by the events after re-entry, want 0", n)
		}
		w := kindGot(t)(other.Mutex("x").Lock(ctx))
		var readers []*kindCall[*fencelock.Lease]
		for range 3 {
			readers = append(readers, kindGo(func() (*fencelock.Lease, error) { return c.RWMutex("x").RLock(ctx) }))
		}
		before := held()
		kindUnlock(t, w)
		if n := held() - before; n != 3 {
			t.Errorf("%d leases by the events while three read together, want 3", n)
		}
		for _, r := range readers {
			kindUnlock(t, r.now(t, "read together"))
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
				got = append(got, fmt.Sprintf("start %s %v %s try=%v", s.Name, s.Mode, s.Engine, s.Try))
				return context.WithValue(ctx, key{}, s.Name)
			},
			AcquireEnd: func(ctx context.Context, e fencelock.AcquireEnd) {
				got = append(got, fmt.Sprintf("end %v %v waited=%v held=%v busy=%v late=%v", ctx.Value(key{}), e.Mode, e.Waited,
					e.Lease != nil, errors.Is(e.Err, fencelock.ErrBusy), errors.Is(e.Err, context.DeadlineExceeded)))
			},
		}
		store := memstore.New(nil)
		other := kindGot(t)(kindClient(t, store, nil).Mutex("y").Lock(kindContext(t)))
		c := kindClient(t, store, &fencelock.Options{Hooks: hooks})
		l := kindGot(t)(c.Mutex("x").Lock(kindContext(t)))
		if l.Context().Value(key{}) != "x" {
			t.Error("the acquisition did not go on with the context of AcquireStart")
		}
		kindUnlock(t, l)
		kindBusy(t)(c.RWMutex("y").TryRLock(kindContext(t)))
		short, cancel := context.WithTimeout(kindContext(t), 2*time.Second)
		defer cancel()
		_, err := c.Mutex("y").Lock(short)
		kindIs(t, err, context.DeadlineExceeded)
		kindUnlock(t, other)
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

// Whoever traces must know whose wait it is: an event has no context.
func TestAcquireWaitHasTheContextOfItsAcquisition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var waits []string
		hooks := fencelock.Hooks{
			AcquireStart: func(ctx context.Context, s fencelock.AcquireStart) context.Context {
				return context.WithValue(ctx, key{}, "wants "+s.Name)
			},
			AcquireWait: func(ctx context.Context, w fencelock.AcquireWait) {
				waits = append(waits, fmt.Sprintf("%v: %s is held by %s, %d before", ctx.Value(key{}), w.Name, w.Holder.Record.Owner, w.Place))
			},
		}
		store := memstore.New(nil)
		c := kindClient(t, store, &fencelock.Options{Owner: "c", Hooks: hooks})
		other := kindGot(t)(kindClient(t, store, kindOwner("other")).Mutex("x").Lock(kindContext(t)))
		kindUnlock(t, kindGot(t)(c.Mutex("free").Lock(kindContext(t))))
		kindBusy(t)(c.Mutex("x").TryLock(kindContext(t)))
		first := kindGo(func() (*fencelock.Lease, error) { return c.Mutex("x").Lock(kindContext(t)) })
		time.Sleep(time.Minute) // many looks, told once
		kindUnlock(t, other)
		l := first.now(t, "its turn")
		second := kindGo(func() (*fencelock.Lease, error) { return c.Mutex("x").Lock(kindContext(t)) })
		synctest.Wait()
		kindUnlock(t, l)
		kindUnlock(t, second.now(t, "its turn"))
		want := []string{"wants x: x is held by other, 0 before", "wants x: x is held by c, 0 before"}
		if !slices.Equal(waits, want) {
			t.Errorf("got\n  %s\nwant\n  %s", strings.Join(waits, "\n  "), strings.Join(want, "\n  "))
		}
	})
}

// kindLog returns a logger without times and what it wrote.
func kindLog(level slog.Level) (*slog.Logger, *bytes.Buffer) {
	var buf bytes.Buffer
	return slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.TimeKey:
			return slog.Attr{}
		case "took": // the clock counts suspends, to the nanosecond
			d := a.Value.Duration().Round(time.Millisecond)
			if d == 0 {
				return slog.Attr{}
			}
			return slog.Duration(a.Key, d)
		}
		return a
	}})), &buf
}

func TestLogHasTransitionsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		logger, buf := kindLog(slog.LevelDebug)
		c, err := fencelock.New(store, &fencelock.Options{Logger: logger})
		if err != nil {
			t.Fatal(err)
		}
		other := kindGot(t)(kindClient(t, store, kindOwner("other")).Mutex("x", fencelock.Reason("nightly")).Lock(ctx))
		waiting := kindGo(func() (*fencelock.Lease, error) { return c.Mutex("x").Lock(ctx) })
		time.Sleep(2 * time.Second)
		kindUnlock(t, other)
		l := waiting.now(t, "its turn")
		time.Sleep(2 * time.Hour) // a thousand renewals
		kindUnlock(t, l)
		l = kindGot(t)(c.Mutex("x", fencelock.MaxHold(time.Minute)).Lock(ctx))
		kindEnded(t, l.Context())
		time.Sleep(time.Minute) // the store has ended it too
		synctest.Wait()
		if err := c.Close(ctx); err != nil {
			t.Fatal(err)
		}
		want := `level=INFO msg="fencelock: session opened" engine=memory shard=0
level=DEBUG msg="fencelock: lease waiting" engine=memory shard=0 lock=x holder=other reason=nightly
level=DEBUG msg="fencelock: lease granted" engine=memory shard=0 lock=x token=512 took=2s
level=DEBUG msg="fencelock: lease released" engine=memory shard=0 lock=x token=512 took=2h0m0s
level=DEBUG msg="fencelock: lease granted" engine=memory shard=0 lock=x token=768
level=WARN msg="fencelock: lease lost" engine=memory shard=0 lock=x token=768 took=57.9s err="fencelock: lease lost: fencelock: lease reached its end"
level=DEBUG msg="fencelock: claim settled" engine=memory shard=0 lock=x
level=INFO msg="fencelock: session closed" engine=memory shard=0
`
		if got := buf.String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

func TestLogOfALostSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		logger, buf := kindLog(slog.LevelInfo)
		c := kindClient(t, kindFaulty(t, store, `on(keepalive, after(2, refuse))`), &fencelock.Options{Logger: logger})
		l := kindGot(t)(c.Mutex("x").Lock(kindContext(t)))
		kindEnded(t, l.Context())
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
			t.Errorf("got %d lines besides, want %d:\n%s", len(rest), len(want), buf)
		}
	})
}
