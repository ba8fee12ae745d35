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
	"github.com/fencelock/fencelock/memstore"
)

func TestInspectAndList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(&memstore.Options{Shards: 3})
		a, b := kindClient(t, store, kindOwner("a")), kindClient(t, store, kindOwner("b"))
		viewer := kindClient(t, store, nil)
		l := kindGot(t)(a.Mutex("jobs/1", fencelock.Reason("import")).Lock(ctx))
		time.Sleep(2 * time.Second)
		waiting := kindGo(func() (*fencelock.Lease, error) { return b.RWMutex("jobs/1").RLock(ctx) })
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
		kindUnlock(t, l)
		kindUnlock(t, waiting.now(t, "its turn"))
		kindListed(t, store, viewer)
	})
}

// kindListed holds more locks than a page has and lists them.
func kindListed(t *testing.T, store driver.Store, viewer *fencelock.Client) {
	t.Helper()
	ctx := kindContext(t)
	c := kindClient(t, store, nil)
	want := map[string]bool{}
	for i := range 600 {
		name := fmt.Sprintf("many/%03d", i)
		kindGot(t)(c.Mutex(name).Lock(ctx))
		want[name] = true
	}
	kindGot(t)(c.Mutex("other").Lock(ctx))
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

func TestInspectSaysUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, fault := range []string{"refuse", "lose(reply)"} {
			c := kindClient(t, kindFaulty(t, memstore.New(nil), fault), nil)
			_, err := c.Inspect(kindContext(t), "x")
			kindIs(t, err, fencelock.ErrUnavailable)
			_, err = c.Break(kindContext(t), "x", 256)
			kindIs(t, err, fencelock.ErrUnavailable)
			kindIs(t, c.Semaphore("x", 1).SetLimit(kindContext(t), 1), fencelock.ErrUnavailable)
			n := 0
			for _, err := range c.List(kindContext(t), "") {
				n++
				kindIs(t, err, fencelock.ErrUnavailable)
			}
			if n != 1 {
				t.Errorf("a list that fails yields %d times, want its error", n)
			}
		}
		ended, cancel := context.WithCancel(kindContext(t))
		cancel()
		_, err := kindClient(t, memstore.New(nil), nil).Inspect(ended, "x")
		kindIs(t, err, context.Canceled)
	})
}

func TestBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		a, b, operator := kindClient(t, store, nil), kindClient(t, store, nil), kindClient(t, store, nil)
		l := kindGot(t)(a.Mutex("x").Lock(ctx))
		_, err := operator.Break(ctx, "x", l.Token()+driver.TokenStep)
		kindIs(t, err, fencelock.ErrNotHeld)
		waiting := kindGo(func() (*fencelock.Lease, error) { return b.Mutex("x").Lock(ctx) })
		fence, err := operator.Break(ctx, "x", l.Token())
		if err != nil {
			t.Fatal(err)
		}
		next := waiting.now(t, "the lock was broken")
		if fence <= l.Token() || fence >= next.Token() {
			t.Errorf("fence %v, want it between %v and %v", fence, l.Token(), next.Token())
		}
		kindEnded(t, l.Context())
		kindIs(t, l.Unlock(ctx), fencelock.ErrLost, fencelock.ErrBroken)
		_, err = operator.Break(ctx, "x", l.Token()) // a second time: the next holder is not hit
		kindIs(t, err, fencelock.ErrNotHeld)
		if err := next.Err(); err != nil {
			t.Error(err)
		}
		kindUnlock(t, next)
	})
}

func TestHolderRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		store := memstore.New(nil)
		a := kindClient(t, store, &fencelock.Options{Owner: "a", Labels: map[string]string{"zone": "eu", "app": "shop"},
			Hooks: fencelock.Hooks{TraceParent: func(ctx context.Context) string { s, _ := ctx.Value(key{}).(string); return s }}})
		b := kindClient(t, store, nil)
		ctx := context.WithValue(kindContext(t), key{}, trace)
		l := kindGot(t)(a.Mutex("x", fencelock.Reason("import"), fencelock.Label("job", "7"), fencelock.Label("app", "till")).Lock(ctx))
		want := fencelock.Record{Owner: "a", Reason: "import", Trace: trace, Labels: map[string]string{"zone": "eu", "app": "till", "job": "7"}}
		for _, c := range []*fencelock.Client{b, a} { // from the store, and without asking it
			got := kindBusy(t)(c.Mutex("x").TryLock(kindContext(t))).Holders
			if len(got) != 1 || got[0].Token != l.Token() || fmt.Sprint(got[0].Record) != fmt.Sprint(want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		kindUnlock(t, l)
		kindUnlock(t, kindGot(t)(b.Mutex("x").Lock(kindContext(t)))) // the labels of one handle stay there
		kindUnlock(t, kindGot(t)(a.Mutex("x").Lock(kindContext(t))))
		l = kindGot(t)(b.Mutex("x").Lock(kindContext(t)))
		if owner := kindStatus(t, store, "x").Holders[0].Record.Owner; !strings.Contains(owner, "@") || !strings.Contains(owner, ":") {
			t.Errorf("default owner %q, want user@host:pid", owner)
		}
		kindUnlock(t, l)
	})
}

// A record is at most MaxRecordBytes with everything in it: stores rely on it.
func TestRecordWithTraceIsKeptSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := kindClient(t, store, &fencelock.Options{Owner: "c", Hooks: fencelock.Hooks{
			TraceParent: func(context.Context) string { return strings.Repeat("t", 55) }}})
		l, err := c.Mutex("x", fencelock.Reason(strings.Repeat("x", 980))).Lock(kindContext(t))
		if err != nil {
			return // refusing it is fine
		}
		b, err := json.Marshal(kindStatus(t, store, "x").Holders[0].Record)
		if err != nil || len(b) > driver.MaxRecordBytes {
			t.Errorf("a record of %d bytes was stored, %v", len(b), err)
		}
		kindUnlock(t, l)
	})
}

func TestErrorTexts(t *testing.T) {
	holder := func(owner, reason string, kept bool) fencelock.Holder {
		return fencelock.Holder{Record: fencelock.Record{Owner: owner, Reason: reason}, Age: 1234567 * time.Microsecond, Kept: kept}
	}
	lost := fmt.Errorf("%w: %w", fencelock.ErrLost, fencelock.ErrExpired)
	for want, err := range map[string]error{
		`fencelock: "x" is busy`:                                               &fencelock.BusyError{Name: "x"},
		`fencelock: "x" is held by a@h:1 for 1.235s`:                           &fencelock.BusyError{Name: "x", Holders: []fencelock.Holder{holder("a@h:1", "", false)}},
		`fencelock: "x" is held by a@h:1 for 1.235s (import) and 1 more`:       &fencelock.BusyError{Name: "x", Holders: []fencelock.Holder{holder("a@h:1", "import", false), holder("b", "", false)}},
		`fencelock: "x" is kept taken by a@h:1 for 1.235s`:                     &fencelock.BusyError{Name: "x", Holders: []fencelock.Holder{holder("a@h:1", "", true)}},
		`fencelock: "x": the store has a new memory and grants nothing for 2s`: &fencelock.BusyError{Name: "x", Grace: true, RetryAfter: 2 * time.Second},
		`fencelock: unlock "x" (memory): lease lost: lease reached its end`:    &fencelock.Error{Op: "unlock", Name: "x", Engine: "memory", Err: lost},
		`fencelock: close (memory): client closed; wait`:                       &fencelock.Error{Op: "close", Engine: "memory", Err: fencelock.ErrClosed, Hint: "wait"},
	} {
		if err.Error() != want {
			t.Errorf("got  %s\nwant %s", err, want)
		}
	}
	if !errors.Is(&fencelock.BusyError{}, fencelock.ErrBusy) || errors.Is(&fencelock.BusyError{}, fencelock.ErrLost) {
		t.Error("a BusyError is ErrBusy and nothing else")
	}
	var words []string
	for _, s := range []fmt.Stringer{fencelock.Efficiency, fencelock.Correctness, fencelock.Failed, fencelock.Ran, fencelock.AlreadyRan,
		fencelock.RunningElsewhere, fencelock.SessionOpened, fencelock.SessionRenewalFailed, fencelock.ClaimSettled} {
		words = append(words, s.String())
	}
	want := []string{"efficiency", "correctness", "failed", "ran", "already ran", "running elsewhere",
		"session opened", "session renewal failed", "claim settled"}
	if !slices.Equal(words, want) {
		t.Errorf("got %q", words)
	}
}
