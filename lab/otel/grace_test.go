// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/otelfencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestMetricsOfAGracePeriod: it is neither a holder nor an outage, and it can be seen while it lasts.
func TestMetricsOfAGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(&memstore.Options{Grace: true, MaxTTL: time.Minute})
		p := newProcess(t, store, nil, &otelfencelock.Options{Class: otelfencelock.Template})
		p.wantMetrics(t, map[string]int64{"fencelock.grace.active{}": 0})
		store.Reset()
		if _, err := p.Mutex("orders/1").TryLock(t.Context()); !errors.Is(err, fencelock.ErrGrace) {
			t.Fatalf("got %v", err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Mutex("orders/2").Lock(short); !errors.Is(err, fencelock.ErrGrace) {
			t.Fatalf("got %v", err)
		}
		p.wantMetrics(t, map[string]int64{
			"fencelock.acquire.duration{class=orders/{id},mode=exclusive,outcome=grace}": 2,
			"fencelock.contentions{class=orders/{id}}":                                   0,
			"fencelock.waiter.active{class=orders/{id}}":                                 0,
			"fencelock.grace.active{}":                                                   1,
		})
		time.Sleep(30 * time.Second)
		store.Reset() // it begins again
		if _, err := p.Mutex("orders/1").TryLock(t.Context()); !errors.Is(err, fencelock.ErrGrace) {
			t.Fatalf("got %v", err)
		}
		time.Sleep(45 * time.Second)
		p.wantMetrics(t, map[string]int64{"fencelock.grace.active{}": 1})
		time.Sleep(15*time.Second + time.Millisecond)
		synctest.Wait()
		p.wantMetrics(t, map[string]int64{"fencelock.grace.active{}": 0})
		unlock(t, lock(t, t.Context(), p.Client, "orders/1"))
		p.wantMetrics(t, map[string]int64{"fencelock.acquire.duration{class=orders/{id},mode=exclusive,outcome=acquired}": 1})
	})
}
