// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

func TestInspectAndList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(&memstore.Options{Shards: 3})
		a, b := locktest.Client(t, store, locktest.Owner("a")), locktest.Client(t, store, locktest.Owner("b"))
		viewer := locktest.Client(t, store, nil)
		l := locktest.Got(t)(a.Mutex("jobs/1", fencelock.Reason("import")).Lock(ctx))
		time.Sleep(2 * time.Second)
		waiting := locktest.Go(func() (*fencelock.Lease, error) { return b.RWMutex("jobs/1").RLock(ctx) })
		time.Sleep(time.Second)
		st, err := viewer.Inspect(ctx, "jobs/1")
		if err != nil || st.Name != "jobs/1" || len(st.Holders) != 1 || len(st.Waiters) != 1 || st.Waiting != 1 {
			t.Fatalf("got %+v, %v; want one holder and one waiter", st, err)
		}
		h, w := st.Holders[0], st.Waiters[0]
		if h.Token != l.Token() || h.Record.Owner != "a" || h.Record.Reason != "import" || h.Age != 3*time.Second ||
			h.Mode != driver.Exclusive || h.EndsIn <= 0 || h.EndsIn > fencelock.DefaultTTL || h.Kept {
			t.Errorf("holder %+v", h)
		}
		if w.Record.Owner != "b" || w.Mode != driver.Shared || w.Age != time.Second {
			t.Errorf("waiter %+v", w)
		}
		free, err := viewer.Inspect(ctx, "jobs/2")
		if err != nil || free.Name != "jobs/2" || len(free.Holders) != 0 || free.Waiting != 0 {
			t.Errorf("a free lock: %+v, %v", free, err)
		}
		locktest.Unlock(t, l)
		locktest.Unlock(t, waiting.Now(t, "first in the queue"))
		listed(t, store, viewer)
	})
}

// listed holds more locks than a page has and lists them.
func listed(t *testing.T, store driver.Store, viewer *fencelock.Client) {
	t.Helper()
	ctx := locktest.Context(t)
	c := locktest.Client(t, store, nil)
	want := map[string]bool{}
	for i := range 600 {
		name := fmt.Sprintf("many/%03d", i)
		locktest.Got(t)(c.Mutex(name).Lock(ctx))
		want[name] = true
	}
	locktest.Got(t)(c.Mutex("other").Lock(ctx))
	got := map[string]bool{}
	for st, err := range viewer.List(ctx, "many/") {
		if err != nil || got[st.Name] || len(st.Holders) != 1 {
			t.Fatalf("%+v, %v: want each held lock one time", st, err)
		}
		got[st.Name] = true
	}
	if !maps.Equal(got, want) {
		t.Errorf("listed %d of %d", len(got), len(want))
	}
	n := 0
	for range viewer.List(ctx, "") {
		if n++; n == 300 {
			break
		}
	}
	if n != 300 {
		t.Errorf("stopped after %d", n)
	}
}

func TestInspectReturnsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, fault := range []string{"refuse", "lose(reply)"} {
			c := locktest.Client(t, locktest.Faulty(t, memstore.New(nil), fault), nil)
			_, err := c.Inspect(locktest.Context(t), "x")
			locktest.Is(t, err, fencelock.ErrUnavailable)
			_, err = c.ForceUnlock(locktest.Context(t), "x", 256)
			locktest.Is(t, err, fencelock.ErrUnavailable)
			locktest.Is(t, c.Semaphore("x", 1).SetLimit(locktest.Context(t), 1), fencelock.ErrUnavailable)
			n := 0
			for _, err := range c.List(locktest.Context(t), "") {
				n++
				locktest.Is(t, err, fencelock.ErrUnavailable)
			}
			if n != 1 {
				t.Errorf("a list that fails yields %d times, want its error", n)
			}
		}
		ended, cancel := context.WithCancel(locktest.Context(t))
		cancel()
		_, err := locktest.Client(t, memstore.New(nil), nil).Inspect(ended, "x")
		locktest.Is(t, err, context.Canceled)
	})
}

func TestForceUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		a, b, operator := locktest.Client(t, store, nil), locktest.Client(t, store, nil), locktest.Client(t, store, nil)
		l := locktest.Got(t)(a.Mutex("x").Lock(ctx))
		_, err := operator.ForceUnlock(ctx, "x", l.Token()+driver.TokenStep)
		locktest.Is(t, err, fencelock.ErrNotHeld)
		waiting := locktest.Go(func() (*fencelock.Lease, error) { return b.Mutex("x").Lock(ctx) })
		fence, err := operator.ForceUnlock(ctx, "x", l.Token())
		must.OK(t, err)
		next := waiting.Now(t, "the lock was broken")
		if fence <= l.Token() || fence >= next.Token() {
			t.Errorf("fence %v, want it between %v and %v", fence, l.Token(), next.Token())
		}
		locktest.Ended(t, l.Context())
		locktest.Is(t, l.Unlock(ctx), fencelock.ErrLost, fencelock.LossForceUnlock)
		_, err = operator.ForceUnlock(ctx, "x", l.Token()) // a second time: the next holder is not hit
		locktest.Is(t, err, fencelock.ErrNotHeld)
		if err := next.Err(); err != nil {
			t.Error(err)
		}
		locktest.Unlock(t, next)
	})
}

func TestHolderRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		store := memstore.New(nil)
		a := locktest.Client(t, store, &fencelock.Options{Owner: "a", Labels: map[string]string{"zone": "eu", "app": "shop"},
			Hooks: fencelock.Hooks{TraceParent: func(ctx context.Context) string { s, _ := ctx.Value(key{}).(string); return s }}})
		b := locktest.Client(t, store, nil)
		ctx := context.WithValue(locktest.Context(t), key{}, trace)
		l := locktest.Got(t)(a.Mutex("x", fencelock.Reason("import"), fencelock.Label("job", "7"), fencelock.Label("app", "till")).Lock(ctx))
		want := fencelock.Record{Owner: "a", Reason: "import", Trace: trace, Labels: map[string]string{"zone": "eu", "app": "till", "job": "7"}}
		for _, c := range []*fencelock.Client{b, a} { // from the store, and without asking it
			got := locktest.Busy(t)(c.Mutex("x").TryLock(locktest.Context(t))).Holders
			if len(got) != 1 || got[0].Token != l.Token() || fmt.Sprint(got[0].Record) != fmt.Sprint(want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		locktest.Unlock(t, l)
		locktest.Unlock(t, locktest.Got(t)(b.Mutex("x").Lock(locktest.Context(t)))) // the labels of one handle stay there
		locktest.Unlock(t, locktest.Got(t)(a.Mutex("x").Lock(locktest.Context(t))))
		l = locktest.Got(t)(b.Mutex("x").Lock(locktest.Context(t)))
		if owner := locktest.Status(t, store, "x").Holders[0].Record.Owner; !strings.Contains(owner, "@") || !strings.Contains(owner, ":") {
			t.Errorf("default owner %q, want user@host:pid", owner)
		}
		locktest.Unlock(t, l)
		l = locktest.Got(t)(a.Mutex("x", fencelock.OwnedBy("guest")).Lock(locktest.Context(t)))
		if owner := locktest.Status(t, store, "x").Holders[0].Record.Owner; owner != "guest" || l.Owner() != "guest" {
			t.Errorf("owner %q in the store, %q of the lease; want that of OwnedBy", owner, l.Owner())
		}
		locktest.Unlock(t, l)
	})
}

// A record is at most MaxRecordBytes with everything in it: stores rely on it.
func TestRecordWithTraceIsKeptSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, store, &fencelock.Options{Owner: "c", Hooks: fencelock.Hooks{
			TraceParent: func(context.Context) string { return strings.Repeat("t", 55) }}})
		l, err := c.Mutex("x", fencelock.Reason(strings.Repeat("x", 980))).Lock(locktest.Context(t))
		if err != nil {
			return // refusing it is fine
		}
		b, err := json.Marshal(locktest.Status(t, store, "x").Holders[0].Record)
		if err != nil || len(b) > driver.MaxRecordBytes {
			t.Errorf("a record of %d bytes was stored, %v", len(b), err)
		}
		locktest.Unlock(t, l)
	})
}

func TestErrorTexts(t *testing.T) {
	holder := func(owner, reason string, kept bool) fencelock.Holder {
		return fencelock.Holder{Record: fencelock.Record{Owner: owner, Reason: reason}, Age: 1234567 * time.Microsecond, Kept: kept}
	}
	lost := &fencelock.LostError{Reason: fencelock.LossMaxHold}
	for want, err := range map[string]error{
		`fencelock: "x" is busy`:                                                            &fencelock.BusyError{Name: "x"},
		`fencelock: "x" is held by redisson:7`:                                              &fencelock.BusyError{Name: "x", Holders: []fencelock.Holder{{Record: fencelock.Record{Owner: "redisson:7"}}}},
		`fencelock: "x" is held by a@h:1 for 1.235s`:                                        &fencelock.BusyError{Name: "x", Holders: []fencelock.Holder{holder("a@h:1", "", false)}},
		`fencelock: "x" is held by a@h:1 for 1.235s (import) and 1 more`:                    &fencelock.BusyError{Name: "x", Holders: []fencelock.Holder{holder("a@h:1", "import", false), holder("b", "", false)}},
		`fencelock: "x" is reserved by a@h:1 for 1.235s`:                                    &fencelock.BusyError{Name: "x", Holders: []fencelock.Holder{holder("a@h:1", "", true)}},
		`fencelock: "x": the store is new or was reset; no new locks for 2s (grace period)`: &fencelock.GraceError{Name: "x", RetryAfter: 2 * time.Second},
		`fencelock: unlock "x" (memory): lease lost: lease reached its end`:                 &fencelock.Error{Op: "unlock", Name: "x", Server: "memory", Err: lost},
		`fencelock: close (memory): client closed; wait`:                                    &fencelock.Error{Op: "close", Server: "memory", Err: fencelock.ErrClosed, Hint: "wait"},
	} {
		if err.Error() != want {
			t.Errorf("got  %s\nwant %s", err, want)
		}
	}
	for want, err := range map[string]error{
		"fencelock: a read lock cannot become a write lock; unlock it first": fencelock.ErrUpgrade,
		"fencelock: not supported by this store":                             fencelock.ErrUnsupported,
		`fencelock: lock "x" (memory): client closed`:                        afterClose(t, (*fencelock.Mutex).Lock),
		`fencelock: try lock "x" (memory): client closed`:                    afterClose(t, (*fencelock.Mutex).TryLock),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	if !errors.Is(fencelock.ErrUnsupported, errors.ErrUnsupported) {
		t.Error("ErrUnsupported is not errors.ErrUnsupported")
	}
	if !errors.Is(&fencelock.BusyError{}, fencelock.ErrBusy) || errors.Is(&fencelock.BusyError{}, fencelock.ErrLost) {
		t.Error("a BusyError is ErrBusy and nothing else")
	}
	if grace := (&fencelock.GraceError{}); !errors.Is(grace, fencelock.ErrGrace) || errors.Is(grace, fencelock.ErrBusy) {
		t.Error("a GraceError is ErrGrace and nothing else")
	}
	var words []string
	for _, s := range []fmt.Stringer{fencelock.Efficiency, fencelock.Correctness, fencelock.OnceResult{Ran: true, Done: true}, fencelock.OnceResult{Ran: true},
		fencelock.OnceResult{Done: true}, fencelock.OnceResult{Holder: &fencelock.Holder{}}, fencelock.OnceResult{}, fencelock.SessionOpened, fencelock.SessionRenewalFailed, fencelock.ClaimWithdrawn} {
		words = append(words, s.String())
	}
	want := []string{"efficiency", "correctness", "ran", "failed", "already ran", "running elsewhere", "not run", "session opened", "session renewal failed", "claim withdrawn"}
	if !slices.Equal(words, want) {
		t.Errorf("got %q", words)
	}
}

// afterClose returns the error of an acquisition with a closed client.
func afterClose(t *testing.T, acquire func(*fencelock.Mutex, context.Context) (*fencelock.Lease, error)) error {
	c, err := fencelock.New(memstore.New(nil), nil)
	must.OK(t, err)
	must.OK(t, c.Close(t.Context()))
	_, err = acquire(c.Mutex("x"), t.Context())
	return err
}
