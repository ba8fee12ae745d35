// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/memstore"
)

func TestBadOptionsAreErrors(t *testing.T) {
	store := memstore.New(&memstore.Options{MinTTL: time.Second, MaxTTL: time.Minute})
	long := strings.Repeat("x", driver.MaxRecordBytes)
	for name, bad := range map[string]struct {
		opts fencelock.Options
		want string
	}{
		"negative TTL":       {fencelock.Options{TTL: -time.Second}, "Options.TTL is -1s, on the memory store it must be at least 1s"},
		"short TTL":          {fencelock.Options{TTL: time.Millisecond}, "Options.TTL is 1ms, on the memory store it must be at least 1s"},
		"long TTL":           {fencelock.Options{TTL: time.Hour}, "Options.TTL is 1h0m0s, the memory store takes at most 1m0s"},
		"negative drift":     {fencelock.Options{Drift: -0.1}, "Options.Drift is -0.1"},
		"drift of a half":    {fencelock.Options{Drift: 0.5}, "Options.Drift is 0.5"},
		"drift that is none": {fencelock.Options{Drift: math.NaN()}, "Options.Drift is NaN"},
		"negative margin":    {fencelock.Options{Margin: -1}, "Options.Margin is -1ns"},
		"great margin":       {fencelock.Options{TTL: 10 * time.Second, Margin: 6 * time.Second}, "Options.Margin is 6s: with a TTL of 10s only 3.9s would be trusted, at least half must be"},
		"call timeout":       {fencelock.Options{CallTimeout: -1}, "Options.CallTimeout is -1ns"},
		"patience":           {fencelock.Options{Patience: -1}, "Options.Patience is -1ns"},
		"many hand-overs":    {fencelock.Options{LocalHandovers: 256}, "Options.LocalHandovers is 256, at most 255"},
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
	_, err := fencelock.New(store, &fencelock.Options{Patience: -1, CallTimeout: -1})
	if err == nil || !strings.Contains(err.Error(), "Patience") || !strings.Contains(err.Error(), "CallTimeout") {
		t.Errorf("got %v, want all that is wrong", err)
	}
	if _, err := fencelock.New(nil, nil); err == nil || !strings.Contains(err.Error(), "memstore") {
		t.Errorf("no store: got %v", err)
	}
}

func TestGoodOptions(t *testing.T) {
	for name, good := range map[string]*fencelock.Options{
		"none":         nil,
		"zero":         {},
		"bounds":       {TTL: time.Minute, Drift: 0.3, Margin: time.Second, LocalHandovers: 255, Owner: "me"},
		"switched off": {LocalHandovers: -1, LocalHandoverFor: -1},
	} {
		if _, err := fencelock.New(memstore.New(nil), good); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The default TTL fits the store.
	for _, bounds := range []memstore.Options{{MaxTTL: 5 * time.Second}, {MinTTL: 30 * time.Second}} {
		c, err := fencelock.New(memstore.New(&bounds), nil)
		if err != nil {
			t.Fatal(err)
		}
		if ttl := c.Guarantees().TTL; ttl != max(bounds.MinTTL, 5*time.Second) {
			t.Errorf("bounds %v to %v: default TTL %v", bounds.MinTTL, bounds.MaxTTL, ttl)
		}
	}
}

func TestBadHandleOptionsAreErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := kindClient(t, store, nil)
		for want, opts := range map[string][]fencelock.Option{
			"FixedLease(0s)":          {fencelock.FixedLease(0)},
			"MaxHold(-1ns)":           {fencelock.MaxHold(-1)},
			"MinHold(0s)":             {fencelock.MinHold(0)},
			"ReentrantAs":             {fencelock.ReentrantAs("")},
			"MinHold(1m0s) is longer": {fencelock.MinHold(time.Minute), fencelock.MaxHold(time.Second)},
			"bytes, at most":          {fencelock.Reason(strings.Repeat("x", 1100))},
			"labels take ":            {fencelock.Label("k", strings.Repeat("x", 1100))},
		} {
			_, errLock := c.Mutex("x", opts...).Lock(kindContext(t))
			_, errTry := c.RWMutex("x", opts...).TryRLock(kindContext(t))
			_, errAll := c.LockAll(kindContext(t), []string{"x"}, opts...)
			errDo := c.Do(kindContext(t), "x", kindNothing, opts...)
			for _, err := range []error{errLock, errTry, errAll, errDo} {
				if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"x"`) {
					t.Errorf("got %v, want an error about x with %q", err, want)
				}
			}
		}
		kindFree(t, store, "x")
	})
}

func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := kindClient(t, store, nil)
		for _, good := range []string{"x", "orders/42", "Ünïcödé 世界", "a b", " ", "{tag}:*?[]\\%_'\"", strings.Repeat("x", 512)} {
			l := kindGot(t)(c.Mutex(good).TryLock(kindContext(t)))
			if l.Name() != good {
				t.Errorf("%q became %q", good, l.Name())
			}
			kindUnlock(t, l)
		}
		for _, bad := range []string{"", strings.Repeat("x", 513), "a\nb", "\x00", "a\x7f", "\xff", "a\u0085b"} {
			_, err := c.Mutex(bad).TryLock(kindContext(t))
			_, inspected := c.Inspect(kindContext(t), bad)
			_, broken := c.Break(kindContext(t), bad, 1)
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
	kindIs(t, err, fencelock.ErrUnsupported, errors.ErrUnsupported)
	want := "fencelock: new (memory): not supported by this store: unsupported operation: Require is Correctness, " +
		"but it may forget a grant in a crash or failover; open it with memstore.Options{Grace: true}"
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	c, err := fencelock.New(memstore.New(&memstore.Options{Grace: true}), need)
	if err != nil || !c.Guarantees().SurvivesCrash || !c.Guarantees().Grace {
		t.Errorf("with grace: %v", err)
	}
	for name, edit := range map[string]func(*driver.Caps){
		"its fencing is best effort, not strict":                               func(c *driver.Caps) { c.Fencing, c.Durability = driver.BestEffort, driver.Durable },
		"its fencing is none, not strict and it may forget a grant in a crash": func(c *driver.Caps) { c.Fencing, c.Advice = driver.NoFencing, "" },
	} {
		_, err := fencelock.New(kindCaps{memstore.New(nil), edit}, need)
		var e *fencelock.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), name) || e.Hint == "" {
			t.Errorf("got %v, want %q and what to change", err, name)
		}
	}
	durable := kindCaps{memstore.New(nil), func(c *driver.Caps) { c.Durability = driver.Durable }}
	if _, err := fencelock.New(durable, need); err != nil {
		t.Errorf("a durable store with strict tokens: %v", err)
	}
}

func TestGuaranteesInWords(t *testing.T) {
	words := func(store driver.Store, opts *fencelock.Options) string {
		c, err := fencelock.New(store, opts)
		if err != nil {
			t.Fatal(err)
		}
		return c.Guarantees().String()
	}
	want := `Fenced effects are exclusive: tokens are unique and rise with every acquisition.
Two holders do not overlap in time while clocks drift less than 1 % and are not stepped.
A holder whose process runs is told 1.5s before the store may give its lock away.
The locks of a process that dies are free after 15s.
A lease that an operator breaks is free at once; its holder is told at the next renewal.
A crash or failover of the engine may forget a grant; a second holder is then possible in time, and only the token tells them apart.
Turns between processes are first come, first served.
`
	if got := words(memstore.New(nil), nil); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for line, got := range map[string]string{
		"After a crash or failover of the engine holders keep their locks, and nothing new is granted until every earlier one must have ended.\n": words(memstore.New(&memstore.Options{Grace: true}), nil),
		"A grant survives a crash or failover of the engine.\n":                                                                                   words(kindCaps{memstore.New(nil), func(c *driver.Caps) { c.Durability = driver.Durable }}, nil),
		"Tokens rise unless the engine loses its memory; see the store's documentation.\n":                                                        words(kindCaps{memstore.New(nil), func(c *driver.Caps) { c.Fencing = driver.BestEffort }}, nil),
		"There are no tokens worth checking: use it only where doing work twice merely costs.\n":                                                  words(kindCaps{memstore.New(nil), func(c *driver.Caps) { c.Fencing = driver.NoFencing }}, nil),
		"Turns between processes are in no order.\n":                                                                                              words(memstore.New(&memstore.Options{NoQueue: true}), nil),
		"clocks drift less than 5 % and":                                                                                                          words(memstore.New(nil), &fencelock.Options{Drift: 0.05}),
		"is told 4s before the store may give its lock away.\nThe locks of a process that dies are free after 40s.":                               words(memstore.New(nil), &fencelock.Options{TTL: 40 * time.Second}),
	} {
		if !strings.Contains(got, line) {
			t.Errorf("%q is missing in\n%s", line, got)
		}
	}
}

func TestUnsupportedIsSaidEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		poor := kindCaps{memstore.New(nil), func(c *driver.Caps) { c.Shared, c.Reentry, c.Hold, c.Listing = false, false, false, false }}
		c := kindClient(t, poor, nil)
		var errs []error
		add := func(_ *fencelock.Lease, err error) { errs = append(errs, err) }
		add(c.RWMutex("x").RLock(kindContext(t)))
		add(c.Semaphore("x", 1).TryAcquire(kindContext(t), 1))
		add(c.Mutex("x", fencelock.ReentrantAs("me")).Lock(kindContext(t)))
		add(c.Mutex("x", fencelock.FixedLease(time.Second)).Lock(kindContext(t)))
		for _, err := range c.List(kindContext(t), "") {
			errs = append(errs, err)
		}
		if len(errs) != 5 {
			t.Errorf("%d answers, want 5", len(errs))
		}
		for _, err := range errs {
			kindIs(t, err, fencelock.ErrUnsupported, errors.ErrUnsupported)
		}
		kindUnlock(t, kindGot(t)(c.RWMutex("x").Lock(kindContext(t))))
	})
}

func TestDoGivesBackAndTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := kindClient(t, store, nil)
		own := errors.New("disk full")
		kindIs(t, c.Do(kindContext(t), "x", func(context.Context, *fencelock.Lease) error { return own }), own)
		kindFree(t, store, "x")
		if what := kindPanics(func() {
			_ = c.Do(kindContext(t), "x", func(context.Context, *fencelock.Lease) error { panic("fn") })
		}); what != "fn" {
			t.Errorf("Do panicked with %v, want fn's panic", what)
		}
		kindFree(t, store, "x")
		err := c.Do(kindContext(t), "x", func(ctx context.Context, l *fencelock.Lease) error {
			<-ctx.Done()
			kindIs(t, context.Cause(ctx), fencelock.ErrLost)
			return own
		}, fencelock.MaxHold(time.Second))
		kindIs(t, err, own, fencelock.ErrLost, fencelock.ErrExpired)
		ctx, cancel := context.WithTimeout(kindContext(t), time.Second)
		defer cancel()
		err = c.Do(ctx, "x", func(ctx context.Context, l *fencelock.Lease) error { <-ctx.Done(); return ctx.Err() })
		kindIs(t, err, context.DeadlineExceeded)
		if errors.Is(err, fencelock.ErrLost) {
			t.Errorf("got %v; the caller's context has ended, nothing was lost", err)
		}
		kindFree(t, store, "x")
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

// Where it means nothing it is refused: nobody may think that it does.
func TestReentrantAsIsForExclusiveLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := kindClient(t, memstore.New(nil), nil)
		me := fencelock.ReentrantAs("me")
		if _, err := c.Semaphore("s", 1, me).Acquire(kindContext(t), 1); err == nil || !strings.Contains(err.Error(), "ReentrantAs") {
			t.Errorf("semaphore: %v", err)
		}
		if _, err := c.RWMutex("r", me).RLock(kindContext(t)); err == nil || !strings.Contains(err.Error(), "ReentrantAs") {
			t.Errorf("reader: %v", err)
		}
		kindUnlock(t, kindGot(t)(c.RWMutex("r", me).Lock(kindContext(t))))
	})
}
