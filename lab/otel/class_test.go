// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/otelfencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestTemplateKeepsTheNameOfAnOccurrence: Client.Once locks name@occurrence, and the name is
// the class of the job.
func TestTemplateKeepsTheNameOfAnOccurrence(t *testing.T) {
	for lock, want := range map[string]string{
		"report@2026-11-17T05:36:00Z":       "report",
		"billing@2026-11-17T00:00:00+08:00": "billing",
		"tenants/42/report@2026-11-17":      "tenants/{id}/report",
		"mail@eu@42":                        "mail",
		"mail%40eu@42":                      "mail",
		"a%25@1":                            "a%",
		"100%":                              "{id}",
		"@42":                               "{id}",
	} {
		if got := otelfencelock.Template(lock); got != want {
			t.Errorf("Template(%q) is %q, want %q", lock, got, want)
		}
	}
}

// TestMetricsOfAnOccurrenceHaveOneClass: those of its lock, and those of its outcome.
func TestMetricsOfAnOccurrenceHaveOneClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, memstore.New(nil), nil, &otelfencelock.Options{Class: otelfencelock.Template})
		for _, job := range []string{"report", "billing"} {
			at := time.Now().UTC().Format(time.RFC3339)
			if _, err := p.Once(job, time.Hour).Do(t.Context(), at, func(context.Context, *fencelock.Lease) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		for _, job := range []string{"report", "billing"} {
			p.wantMetrics(t, map[string]int64{
				"fencelock.occurrences.by_class{class=" + job + ",outcome=ran}":                 1,
				"fencelock.acquisitions{class=" + job + ",via=store}":                           1,
				"fencelock.acquire.duration{class=" + job + ",mode=exclusive,outcome=acquired}": 1,
			})
		}
	})
}

// TestPanicOfClassIsNotTheCallers: a mistake in a function for metrics breaks no lock.
func TestPanicOfClassIsNotTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, memstore.New(nil), nil, &otelfencelock.Options{Class: func(lock string) string { return lock[9:] }})
		must.OK(t, p.Do(t.Context(), "short", func(context.Context, *fencelock.Lease) error { return nil }))
		p.wantMetrics(t, map[string]int64{"fencelock.acquisitions{class=other,via=store}": 1, "fencelock.lease.active{class=other}": 0})
	})
}

// TestLeaseGaugeAfterAPanicOfAHook: the lease is given back, and the gauge counts it down.
func TestLeaseGaugeAfterAPanicOfAHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := true
		p := newProcess(t, memstore.New(nil), &fencelock.Options{Hooks: fencelock.Hooks{AcquireEnd: func(context.Context, fencelock.AcquireEnd) {
			if boom {
				panic("no disk")
			}
		}}}, nil)
		func() {
			defer func() { _ = recover() }()
			_, _ = p.Mutex("a").Lock(t.Context())
		}()
		boom = false
		synctest.Wait()
		p.wantMetrics(t, map[string]int64{"fencelock.lease.active{}": 0})
	})
}

// settings is a store whose settings have changed: it refuses to renew sessions.
type settings struct{ driver.Store }

type settingsSession struct{ driver.Session }

// Open implements driver.Store.
func (s settings) Open(ctx context.Context, r driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	session, renewal, err := s.Store.Open(ctx, r)
	return settingsSession{session}, renewal, err
}

// KeepAlive implements driver.Session.
func (settingsSession) KeepAlive(context.Context) (driver.Renewal, error) {
	return driver.Renewal{}, driver.ErrRefused
}

// TestRefusedRenewalIsNotCountedAsAnEarlyEnd: the settings of the process must be changed, and
// not the clock of the server.
func TestRefusedRenewalIsNotCountedAsAnEarlyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, settings{memstore.New(nil)}, nil, nil)
		ended(t, lock(t, t.Context(), p.Client, "a"))
		synctest.Wait()
		p.wantMetrics(t, map[string]int64{"fencelock.losses{reason=refused}": 1, "fencelock.losses{reason=ended}": 0})
	})
}
