// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

func TestBadOptionsAreErrors(t *testing.T) {
	store := memstore.New(&memstore.Options{MinTTL: time.Second, MaxTTL: time.Minute})
	long := strings.Repeat("x", driver.MaxRecordBytes)
	for name, bad := range map[string]struct {
		opts fencelock.Options
		want string
	}{
		"negative TTL":       {fencelock.Options{TTL: -time.Second}, "Options.TTL is -1s; on the memory store it must be at least 1s"},
		"short TTL":          {fencelock.Options{TTL: time.Millisecond}, "Options.TTL is 1ms; on the memory store it must be at least 1s"},
		"long TTL":           {fencelock.Options{TTL: time.Hour}, "Options.TTL is 1h0m0s; on the memory store it must be at most 1m0s"},
		"negative drift":     {fencelock.Options{Drift: -0.1}, "Options.Drift is -0.1"},
		"drift of a half":    {fencelock.Options{Drift: 0.5}, "Options.Drift is 0.5"},
		"drift that is none": {fencelock.Options{Drift: math.NaN()}, "Options.Drift is NaN"},
		"negative margin":    {fencelock.Options{Margin: -1}, "Options.Margin is -1ns"},
		"great margin":       {fencelock.Options{TTL: 10 * time.Second, Margin: 6 * time.Second}, "Options.Margin is 6s: with a TTL of 10s the lease would be trusted for only 3.9s; at least half of the TTL must be left"},
		"call timeout":       {fencelock.Options{CallTimeout: -1}, "Options.CallTimeout is -1ns"},
		"patience":           {fencelock.Options{StoreTimeout: -1}, "Options.StoreTimeout is -1ns"},
		"need":               {fencelock.Options{Require: 7}, "Options.Require is 7"},
		"long owner":         {fencelock.Options{Owner: long}, "bytes, at most"},
		"long labels":        {fencelock.Options{Labels: map[string]string{"k": long}}, "bytes, at most"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := fencelock.New(store, &bad.opts)
			if c != nil || err == nil || !strings.HasPrefix(err.Error(), "fencelock: ") || !strings.Contains(err.Error(), bad.want) {
				t.Errorf("got %v, want an error with %q", err, bad.want)
			}
		})
	}
	_, err := fencelock.New(store, &fencelock.Options{StoreTimeout: -1, CallTimeout: -1})
	if err == nil || !strings.Contains(err.Error(), "StoreTimeout") || !strings.Contains(err.Error(), "CallTimeout") {
		t.Errorf("got %v, want all that is wrong", err)
	}
	if _, err := fencelock.New(nil, nil); err == nil || !strings.Contains(err.Error(), "memstore") {
		t.Errorf("no store: got %v", err)
	}
}

// Times of centuries overflow when a tenth is added: a waiter would poll without a pause, and
// a Close would not wait at all.
func TestTimesBeyondAYearAreRefused(t *testing.T) {
	store := memstore.New(&memstore.Options{MaxTTL: math.MaxInt64})
	const year = 365 * 24 * time.Hour
	for want, bad := range map[string]fencelock.Options{
		"Options.TTL is 2562047h47m16.854775807s; on the memory store it must be at most 8760h0m0s": {TTL: math.MaxInt64},
		"Options.TTL is 8760h0m0.000000001s; ":                                                      {TTL: year + 1},
		"Options.CallTimeout is 8760h0m0.000000001s; it must be positive and at most 8760h0m0s":     {CallTimeout: year + 1},
	} {
		if _, err := fencelock.New(store, &bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	if _, err := fencelock.New(store, &fencelock.Options{TTL: year, CallTimeout: year, StoreTimeout: math.MaxInt64}); err != nil {
		t.Error(err)
	}
}

func TestGoodOptions(t *testing.T) {
	for name, good := range map[string]*fencelock.Options{
		"none":         nil,
		"zero":         {},
		"bounds":       {TTL: time.Minute, Drift: 0.3, Margin: time.Second, LocalHandoff: time.Hour, Owner: "me"},
		"switched off": {LocalHandoff: -1},
	} {
		if _, err := fencelock.New(memstore.New(nil), good); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The default TTL fits the store.
	for _, bounds := range []memstore.Options{{MaxTTL: 5 * time.Second}, {MinTTL: 30 * time.Second}} {
		c, err := fencelock.New(memstore.New(&bounds), nil)
		must.OK(t, err)
		if ttl := c.Guarantees().TTL; ttl != max(bounds.MinTTL, 5*time.Second) {
			t.Errorf("bounds %v to %v: default TTL %v", bounds.MinTTL, bounds.MaxTTL, ttl)
		}
	}
}

func TestBadHandleOptionsAreErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
		for want, opts := range map[string][]fencelock.LockOption{
			"MaxHold(0s)":             {fencelock.MaxHold(0)},
			"MaxHold(-1ns)":           {fencelock.MaxHold(-1)},
			"MinHold(0s)":             {fencelock.MinHold(0)},
			"ReentrantAs":             {fencelock.ReentrantAs("")},
			"MinHold(1m0s) is longer": {fencelock.MinHold(time.Minute), fencelock.MaxHold(time.Second)},
			"bytes, at most":          {fencelock.Reason(strings.Repeat("x", 1100))},
			"labels take ":            {fencelock.Label("k", strings.Repeat("x", 1100))},
		} {
			_, errLock := c.Mutex("x", opts...).Lock(locktest.Context(t))
			_, errTry := c.RWMutex("x", opts...).TryRLock(locktest.Context(t))
			_, errAll := c.LockAll(locktest.Context(t), []string{"x"}, opts...)
			errDo := c.Mutex("x", opts...).Do(locktest.Context(t), locktest.Nothing)
			for _, err := range []error{errLock, errTry, errAll, errDo} {
				if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"x"`) {
					t.Errorf("got %v, want an error about x with %q", err, want)
				}
			}
		}
		locktest.Free(t, store, "x")
	})
}

func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
		for _, good := range []string{"x", "orders/42", "Ünïcödé 世界", "a b", " ", "{tag}:*?[]\\%_'\"", strings.Repeat("x", 512)} {
			l := locktest.Got(t)(c.Mutex(good).TryLock(locktest.Context(t)))
			if l.Name() != good {
				t.Errorf("%q became %q", good, l.Name())
			}
			locktest.Unlock(t, l)
		}
		for _, bad := range []string{"", strings.Repeat("x", 513), "a\nb", "\x00", "a\x7f", "\xff", "a\u0085b"} {
			_, err := c.Mutex(bad).TryLock(locktest.Context(t))
			_, inspected := c.Inspect(locktest.Context(t), bad)
			_, broken := c.ForceUnlock(locktest.Context(t), bad, 1)
			for _, err := range []error{err, inspected, broken} {
				if err == nil || !strings.HasPrefix(err.Error(), "fencelock: ") {
					t.Errorf("%q: got %v, want it refused", bad, err)
				}
			}
		}
	})
}

func TestRequireCorrectnessRefuses(t *testing.T) {
	need := &fencelock.Options{Require: fencelock.Correctness}
	_, err := fencelock.New(memstore.New(nil), need)
	locktest.Is(t, err, fencelock.ErrUnsupported, errors.ErrUnsupported)
	want := "fencelock: new (memory): not supported by this store: Require is Correctness, " +
		"but it may lose a grant in a crash or failover; open it with grace=true in its URL (Options{Grace: true})"
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	c, err := fencelock.New(memstore.New(&memstore.Options{Grace: true}), need)
	if err != nil || !c.Guarantees().SurvivesCrash || !c.Guarantees().Grace {
		t.Errorf("with grace: %v", err)
	}
	for name, edit := range map[string]func(*driver.Caps){
		"its fencing is best effort, not strict":                             func(c *driver.Caps) { c.Fencing, c.Durability = driver.BestEffort, driver.Durable },
		"its fencing is none, not strict and it may lose a grant in a crash": func(c *driver.Caps) { c.Fencing, c.Advice = driver.NoFencing, "" },
	} {
		_, err := fencelock.New(locktest.Caps(memstore.New(nil), edit), need)
		var e *fencelock.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), name) || e.Hint == "" {
			t.Errorf("got %v, want %q and what to change", err, name)
		}
	}
	durable := locktest.Caps(memstore.New(nil), func(c *driver.Caps) { c.Durability = driver.Durable })
	if _, err := fencelock.New(durable, need); err != nil {
		t.Errorf("a durable store with strict tokens: %v", err)
	}
}

func TestGuaranteesInWords(t *testing.T) {
	words := func(store driver.Store, opts *fencelock.Options) string {
		c, err := fencelock.New(store, opts)
		must.OK(t, err)
		return c.Guarantees().String()
	}
	want := `Fenced effects are exclusive: tokens are unique and rise with every acquisition.
Two holders do not overlap in time while clocks drift less than 1 % and are not stepped.
A holder whose process runs is notified 1.5s before the store may give its lock away (with MaxHold: a tenth of its length before, if that is less).
The locks of a process that dies are free 15s after its last renewal, or later if the server ends sessions late (see the store's documentation).
A lease that an operator breaks is free at once; its holder is notified at the next renewal.
A grant may be lost in a crash or failover of the server; a second holder at the same time is then possible, and only the token distinguishes them.
Processes acquire a lock in the order in which they asked for it.
A holder that asks for it is notified at once when another process waits.
`
	if got := words(memstore.New(nil), nil); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for line, got := range map[string]string{
		"After a crash or failover of the server holders keep their locks, and no new lock is granted until every earlier lease must have ended.\n": words(memstore.New(&memstore.Options{Grace: true}), nil),
		"A grant survives a crash of the server, and a failover as far as the conditions above hold.\n":                                             words(locktest.Caps(memstore.New(nil), func(c *driver.Caps) { c.Durability, c.Assumes = driver.Durable, "It is replicated." }), nil),
		"A grant survives a crash or failover of the server.\n":                                                                                     words(locktest.Caps(memstore.New(nil), func(c *driver.Caps) { c.Durability = driver.Durable }), nil),
		"Tokens rise unless the server loses its data; see the store's documentation.\n":                                                            words(locktest.Caps(memstore.New(nil), func(c *driver.Caps) { c.Fencing = driver.BestEffort }), nil),
		"There are no tokens to check: use this store only where doing work twice is merely wasteful.\n":                                            words(locktest.Caps(memstore.New(nil), func(c *driver.Caps) { c.Fencing = driver.NoFencing }), nil),
		"Processes acquire a lock in no particular order.\n":                                                                                        words(memstore.New(&memstore.Options{NoQueue: true}), nil),
		"A holder that asks for it is notified at the next renewal when another process waits.\n":                                                   words(memstore.New(&memstore.Options{NoPush: true}), nil),
		"A holder is not notified when another process waits.\n":                                                                                    words(memstore.New(&memstore.Options{NoQueue: true}), nil),
		"clocks drift less than 5 % and":                                                                                                            words(memstore.New(nil), &fencelock.Options{Drift: 0.05}),
		"is notified 4s before the store may give its lock away (with MaxHold: a tenth of its length before, if that is less).\nThe locks of a process that dies are free 40s after its last renewal,": words(memstore.New(nil), &fencelock.Options{TTL: 40 * time.Second}),
	} {
		if !strings.Contains(got, line) {
			t.Errorf("%q is missing in\n%s", line, got)
		}
	}
}

func TestUnsupportedIsReportedEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		poor := locktest.Caps(memstore.New(nil), func(c *driver.Caps) { c.Shared, c.Reentry, c.Hold, c.Listing = false, false, false, false })
		c := locktest.Client(t, poor, nil)
		var errs []error
		add := func(_ *fencelock.Lease, err error) { errs = append(errs, err) }
		add(c.RWMutex("x").RLock(locktest.Context(t)))
		add(c.Semaphore("x", 1).TryAcquire(locktest.Context(t), 1))
		add(c.Mutex("x", fencelock.ReentrantAs("me")).Lock(locktest.Context(t)))
		add(c.Mutex("x", fencelock.MaxHold(time.Second)).Lock(locktest.Context(t)))
		for _, err := range c.List(locktest.Context(t), "") {
			errs = append(errs, err)
		}
		if len(errs) != 5 {
			t.Errorf("%d answers, want 5", len(errs))
		}
		for _, err := range errs {
			locktest.Is(t, err, fencelock.ErrUnsupported, errors.ErrUnsupported)
		}
		locktest.Unlock(t, locktest.Got(t)(c.RWMutex("x").Lock(locktest.Context(t))))
	})
}

// TestDoKeepsTheErrorOfItsFunction: work that ended by a deadline is not work that was done and
// whose unlock, which failed by another deadline, is only not confirmed.
func TestDoKeepsTheErrorOfItsFunction(t *testing.T) {
	cut, err := faultstore.Wrap(memstore.New(nil), faultstore.MustParse("on(withdraw, lose(request))"), nil)
	must.OK(t, err)
	c, err := fencelock.New(cut, &fencelock.Options{TTL: time.Second, CallTimeout: 50 * time.Millisecond})
	must.OK(t, err)
	err = c.Mutex("a").Do(t.Context(), func(context.Context, *fencelock.Lease) error { return context.DeadlineExceeded })
	if !errors.Is(err, fencelock.ErrReleased) || !strings.HasPrefix(fmt.Sprint(err), context.DeadlineExceeded.Error()+"\n") {
		t.Errorf("got %v, want the error of the function and that of the unlock", err)
	}
}

func TestDoUnlocksAndReportsTheLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
		own := errors.New("disk full")
		locktest.Is(t, c.Do(locktest.Context(t), "x", func(context.Context, *fencelock.Lease) error { return own }), own)
		locktest.Free(t, store, "x")
		if what := locktest.Panics(func() {
			_ = c.Do(locktest.Context(t), "x", func(context.Context, *fencelock.Lease) error { panic("fn") })
		}); what != "fn" {
			t.Errorf("Do panicked with %v, want fn's panic", what)
		}
		locktest.Free(t, store, "x")
		err := c.Mutex("x", fencelock.MaxHold(time.Second)).Do(locktest.Context(t), func(ctx context.Context, l *fencelock.Lease) error {
			<-ctx.Done()
			locktest.Is(t, context.Cause(ctx), fencelock.ErrLost)
			return own
		})
		locktest.Is(t, err, own, fencelock.ErrLost, fencelock.LossMaxHold)
		ctx, cancel := context.WithTimeout(locktest.Context(t), time.Second)
		defer cancel()
		err = c.Do(ctx, "x", func(ctx context.Context, l *fencelock.Lease) error { <-ctx.Done(); return ctx.Err() })
		locktest.Is(t, err, context.DeadlineExceeded)
		if errors.Is(err, fencelock.ErrLost) {
			t.Errorf("got %v; the caller's context has ended, nothing was lost", err)
		}
		locktest.Free(t, store, "x")
	})
}

// TTL: 15 was meant to be seconds; as it stands it would be renewed all the time.
func TestTTLWithoutAUnitIsRefused(t *testing.T) {
	for _, ttl := range []time.Duration{1, 15, 15_000, 9 * time.Millisecond} {
		c, err := fencelock.New(memstore.New(nil), &fencelock.Options{TTL: ttl})
		if c != nil || err == nil || !strings.Contains(err.Error(), "Options.TTL is "+ttl.String()) || !strings.Contains(err.Error(), "at least 10ms") {
			t.Errorf("TTL %d: got %v", ttl, err)
		}
	}
	if _, err := fencelock.New(memstore.New(nil), &fencelock.Options{TTL: 10 * time.Millisecond}); err != nil {
		t.Error(err)
	}
}

// ReentrantAs is refused where it has no effect, so that no caller relies on it there.
func TestReentrantAsIsForExclusiveLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.Client(t, memstore.New(nil), nil)
		me := fencelock.ReentrantAs("me")
		if _, err := c.Semaphore("s", 1, me).Acquire(locktest.Context(t), 1); err == nil || !strings.Contains(err.Error(), "ReentrantAs") {
			t.Errorf("semaphore: %v", err)
		}
		if _, err := c.RWMutex("r", me).RLock(locktest.Context(t)); err == nil || !strings.Contains(err.Error(), "ReentrantAs") {
			t.Errorf("reader: %v", err)
		}
		locktest.Unlock(t, locktest.Got(t)(c.RWMutex("r", me).Lock(locktest.Context(t))))
	})
}

// TestOpenStoreInMemory: the parameters count, each store is its own, and it can be
// checked and closed.
func TestOpenStoreInMemory(t *testing.T) {
	store, err := fencelock.OpenStore(t.Context(), "mem://?grace=true&max_ttl=30s&namespace=x")
	must.OK(t, err)
	if c := store.Caps(); !c.Grace || c.MaxTTL != 30*time.Second {
		t.Errorf("got %+v", c)
	}
	if found, err := store.(driver.Checker).Check(t.Context()); err != nil || len(found) != 1 || found[0].Code != "one-process" {
		t.Errorf("got %v, %v", found, err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// TestOpenStoreShowsNoSecret: an error says what is wrong and nothing of the URL.
func TestOpenStoreShowsNoSecret(t *testing.T) {
	for url, want := range map[string]string{
		"mem://u:hunter2@h":      "memstore: the URL is mem://",
		"mem://?gracee=true":     "did you mean grace?",
		"mem://?max_ttl=hunter2": "parameter max_ttl",
		"mem://?buckets=3":       "does nothing",
		"redis://u:hunter2@h":    `import _ "github.com/fencelock/fencelock/store/redisstore"`,
		"u:hunter2@h":            "no scheme",
		"hunter2 ://h":           "does not begin with a known scheme",
	} {
		store, err := fencelock.OpenStore(t.Context(), url)
		if store != nil || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, %v, want %q and no secret", url, store, err, want)
		}
	}
}
