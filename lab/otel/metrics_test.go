// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/otelfencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// live makes everything happen once that metrics count: a wait, a try that
// is refused, a handoff, a timeout, a store that does not answer, a loss by hand
// and one by silence of the store.
func live(t *testing.T, p, other *process) {
	t.Helper()
	ctx := context.Background()
	theirs := lock(t, ctx, other.Client, "orders/1")
	if _, err := p.Mutex("orders/1").TryLock(ctx); !errors.Is(err, fencelock.ErrBusy) {
		t.Fatalf("got %v, want ErrBusy", err)
	}
	got := make(chan *fencelock.Lease)
	wait := func() {
		l, err := p.Mutex("orders/1").Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- l
	}
	go wait()
	synctest.Wait()
	p.wantMetrics(t, map[string]int64{"fencelock.waiter.active{class=orders/{id}}": 1})
	unlock(t, theirs)
	first := <-got
	go wait()
	synctest.Wait()
	unlock(t, first)
	second := <-got
	if _, err := other.ForceUnlock(ctx, "orders/1", second.Token()); err != nil {
		t.Fatal(err)
	}
	ended(t, second)
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	theirs = lock(t, ctx, other.Client, "orders/2")
	if _, err := p.Mutex("orders/2").Lock(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want a timeout", err)
	}
	unlock(t, theirs)
	if _, err := p.Mutex("gone").Lock(ctx); !errors.Is(err, fencelock.ErrUnavailable) {
		t.Fatalf("got %v, want ErrUnavailable", err)
	}
	third := lock(t, ctx, p.Client, "report")
	ended(t, third)
	synctest.Wait()
}

// silent is the fault of live: one lock cannot be had, and no keep-alive gets
// through from the tenth minute.
const silent = `any(on(attempt, name("gone", refuse)), during(10m, 20m, on(keepalive, refuse)))`

// TestMetricsCountLocksThatLinger: a lock without a round trip is one via the process, and a
// recall is counted.
func TestMetricsCountLocksThatLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		p, other := newProcess(t, store, nil, &otelfencelock.Options{Class: otelfencelock.Template}), newProcess(t, store, nil, nil)
		for range 3 {
			l, err := p.Mutex("tenant/7", fencelock.Linger(time.Second)).Lock(t.Context())
			must.OK(t, err)
			unlock(t, l)
		}
		unlock(t, lock(t, t.Context(), other.Client, "tenant/7"))
		synctest.Wait()
		p.wantMetrics(t, map[string]int64{
			"fencelock.acquisitions{class=tenant/{id},via=store}":   1,
			"fencelock.acquisitions{class=tenant/{id},via=process}": 2,
			"fencelock.recall.duration{class=tenant/{id}}":          1,
		})
	})
}

func TestMetricsCountWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		p := newProcess(t, faulty(t, store, silent), nil, &otelfencelock.Options{Class: otelfencelock.Template})
		live(t, p, newProcess(t, store, nil, nil))
		p.wantMetrics(t, map[string]int64{
			"fencelock.acquire.duration{class=orders/{id},mode=exclusive,outcome=acquired}": 2,
			"fencelock.acquire.duration{class=orders/{id},mode=exclusive,outcome=busy}":     1,
			"fencelock.acquire.duration{class=orders/{id},mode=exclusive,outcome=timeout}":  1,
			"fencelock.acquire.duration{class=gone,mode=exclusive,outcome=unavailable}":     1,
			"fencelock.acquire.duration{class=report,mode=exclusive,outcome=acquired}":      1,
			"fencelock.hold.duration{class=orders/{id},end=released}":                       1,
			"fencelock.hold.duration{class=orders/{id},end=lost}":                           1,
			"fencelock.hold.duration{class=report,end=lost}":                                1,
			"fencelock.acquisitions{class=orders/{id},via=store}":                           1,
			"fencelock.acquisitions{class=orders/{id},via=process}":                         1,
			"fencelock.contentions{class=orders/{id}}":                                      4,
			"fencelock.contentions{class=report}":                                           0,
			"fencelock.lease.active{class=orders/{id}}":                                     0,
			"fencelock.lease.active{class=report}":                                          0,
			"fencelock.waiter.active{class=orders/{id}}":                                    0,
			"fencelock.losses.by_class{class=orders/{id},reason=broken}":                    1,
			"fencelock.losses{reason=broken}":                                               1,
			"fencelock.losses{reason=unrenewed}":                                            1,
			"fencelock.losses.by_class{class=report,reason=unrenewed}":                      1,
			"fencelock.losses.by_class{class=report,reason=reset}":                          0,
			"fencelock.session.transitions{event=lost}":                                     1,
			"fencelock.session.transitions{event=reset}":                                    0,
		})
		m := p.metrics(t)
		if m["fencelock.renewals{outcome=renewed}"] == 0 || m["fencelock.renewals{error.type=unavailable,outcome=failed}"] == 0 {
			t.Errorf("renewals that went well and that failed are not both there: %v", m)
		}
		if m["fencelock.client.operation.duration{operation=attempt}"] == 0 ||
			m["fencelock.client.operation.duration{error.type=unavailable,operation=keep_alive}"] == 0 {
			t.Errorf("the calls to the store are not there: %v", m)
		}
		if m["fencelock.client.operation.failures{error.type=unavailable}"] == 0 {
			t.Errorf("the calls that failed are not there: %v", m)
		}
	})
}

// What an alert reads and has never happened must be there as zero, or its
// first time is not an increase. What a panel shows must not be missing.
func TestEveryAlertedSeriesBeginsAtZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, memstore.New(nil), nil, nil)
		for _, reason := range []string{"unrenewed", "ended", "reset", "broken", "expired", "refused"} {
			p.wantMetrics(t, map[string]int64{"fencelock.losses{reason=" + reason + "}": 0})
		}
		for _, kind := range []string{"unknown", "unavailable", "timeout", "refused", "other"} {
			p.wantMetrics(t, map[string]int64{"fencelock.client.operation.failures{error.type=" + kind + "}": 0})
		}
		p.wantMetrics(t, map[string]int64{"fencelock.waiter.active{}": 0, "fencelock.lease.active{}": 0, "fencelock.contentions{}": 0})
	})
}

func TestLockNamesAreNoAttributes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		p := newProcess(t, store, nil, nil)
		ctx := context.Background()
		unlock(t, lock(t, ctx, p.Client, "secret"))
		theirs := lock(t, ctx, newProcess(t, store, nil, nil).Client, "secret")
		if _, err := p.Mutex("secret").TryLock(ctx); !errors.Is(err, fencelock.ErrBusy) {
			t.Fatal(err)
		}
		l := lock(t, ctx, p.Client, "secret2", fencelock.MaxHold(time.Second))
		ended(t, l)
		unlock(t, theirs)
		all := p.metrics(t)
		for name := range all {
			if strings.Contains(name, "secret") || strings.Contains(name, "class=") {
				t.Errorf("%s has the name of a lock", name)
			}
		}
		if all["fencelock.losses{reason=expired}"] != 1 || all["fencelock.acquisitions{via=store}"] != 2 {
			t.Errorf("the test measured nothing: %v", all)
		}
	})
}

func TestClassesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, memstore.New(nil), nil, &otelfencelock.Options{Class: strings.ToUpper, MaxClasses: 2})
		for i := range 10 {
			unlock(t, lock(t, context.Background(), p.Client, fmt.Sprint("lock", i)))
		}
		synctest.Wait()
		p.wantMetrics(t, map[string]int64{
			"fencelock.acquisitions{class=LOCK0,via=store}":       1,
			"fencelock.acquisitions{class=LOCK1,via=store}":       1,
			"fencelock.acquisitions{class=other,via=store}":       8,
			"fencelock.lease.active{class=other}":                 0,
			"fencelock.losses.by_class{class=other,reason=ended}": 0,
		})
		if _, ok := p.metrics(t)["fencelock.acquisitions{class=LOCK2,via=store}"]; ok {
			t.Error("a third class has a series of its own")
		}
	})
}

// A store that keeps silent for seconds loses nothing, and this is where it is
// seen.
func TestHeadroomShrinksBeforeALoss(t *testing.T) {
	least := func(fault string) (low float64) {
		synctest.Test(t, func(t *testing.T) {
			p := newProcess(t, faulty(t, memstore.New(nil), fault), &fencelock.Options{TTL: 30 * time.Second}, nil)
			l := lock(t, context.Background(), p.Client, "x")
			time.Sleep(2 * time.Minute)
			unlock(t, l)
			for _, m := range collect(t, p.reader) {
				if h, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == "fencelock.lease.headroom" {
					low, _ = h.DataPoints[0].Min.Value()
				}
			}
		})
		return low
	}
	quiet, troubled := least("none"), least("during(30s, 44s, on(keepalive, refuse))")
	if quiet < 0.5 || quiet > 0.9 {
		t.Errorf("a store that answers leaves %.2f of the TTL, want about two thirds", quiet)
	}
	if troubled <= 0.11 || troubled >= quiet-0.1 {
		t.Errorf("a store that is silent for 14s of 30s leaves %.2f, want less and more than what is lost", troubled)
	}
}

func TestTemplate(t *testing.T) {
	for lock, want := range map[string]string{
		"orders/42/pay": "orders/{id}/pay",
		"user:7":        "user:{id}",
		"nightly":       "nightly",
		"job 0b2f1c5e-1111-4222-8333-444455556666": "job {id}",
		"a.b_c9":  "a.b_{id}",
		"x/":      "x/",
		"Ω/٣":     "Ω/{id}",
		"tenant#": "tenant#",
	} {
		if got := otelfencelock.Template(lock); got != want {
			t.Errorf("Template(%q) is %q, want %q", lock, got, want)
		}
	}
}

func TestBadOptions(t *testing.T) {
	if _, err := otelfencelock.New(nil, nil, nil); err == nil || !strings.Contains(err.Error(), "New needs a store") {
		t.Errorf("no store: got %v", err)
	}
	if _, err := otelfencelock.New(memstore.New(nil), nil, &otelfencelock.Options{MaxClasses: -1}); err == nil || !strings.Contains(err.Error(), "MaxClasses") {
		t.Errorf("MaxClasses -1: got %v", err)
	}
	if _, err := otelfencelock.NewRejections(&otelfencelock.Options{MaxClasses: -1}); err == nil {
		t.Error("NewRejections took MaxClasses -1")
	}
	if _, err := otelfencelock.New(memstore.New(nil), &fencelock.Options{TTL: 1}, nil); err == nil || !strings.Contains(err.Error(), "Options.TTL") {
		t.Errorf("a bad TTL: got %v, want what fencelock.New says", err)
	}
}

// A caller with a deadline below Options.StoreTimeout gives up first. What it waited
// for decides the outcome: a holder, or a store that does not answer.
func TestOutcomeDistinguishesABusyLockFromASilentStore(t *testing.T) {
	for fault, want := range map[string]string{"none": "timeout", "refuse": "unavailable", "lose(request)": "unavailable"} {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New(nil)
			theirs := lock(t, context.Background(), newProcess(t, store, nil, nil).Client, "x")
			p := newProcess(t, faulty(t, store, "during(0s, 1m, "+fault+")"), nil, nil)
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			if _, err := p.Mutex("x").Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: got %v, want the error of the context", fault, err)
			}
			p.wantMetrics(t, map[string]int64{"fencelock.acquire.duration{mode=exclusive,outcome=" + want + "}": 1})
			time.Sleep(2 * time.Minute)
			unlock(t, theirs)
		})
	}
}
