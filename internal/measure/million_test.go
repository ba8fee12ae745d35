// SPDX-License-Identifier: Apache-2.0

package measure_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/internal/measure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

var flagLeases = flag.Int("leases", 100_000, "how many leases TestMillionLeases holds")

// In real time: what it measures is memory and goroutines.
func TestMillionLeases(t *testing.T) {
	const shards = 4
	n := *flagLeases
	if testing.Short() {
		n = min(n, 50_000)
	}
	h, err := measure.Leases(t.Context(), n, shards)
	must.OK(t, err)
	fmt.Printf("million: %v\n", h)
	if h.Bytes > 600 {
		t.Errorf("%.0f bytes per lease; want at most 600", h.Bytes)
	}
	if h.Goroutines > shards+2 {
		t.Errorf("%d more goroutines; want one per session, which are %d", h.Goroutines, shards)
	}
	// A machine that is busy renews late, which makes it fewer.
	if h.KeepAlives > 1 || h.KeepAlives == 0 {
		t.Errorf("%.2f calls per renewal period and shard; want 1", h.KeepAlives)
	}
}

// It reports and does not judge: that depends on the machine and its load.
func TestLocalHandoffRate(t *testing.T) {
	h, err := measure.Handoff(t.Context(), 64, 1, 20*time.Millisecond)
	must.OK(t, err)
	t.Log(h)
	if !(h.Ratio > 0) {
		t.Errorf("ratio %v", h.Ratio)
	}
}

// TestPassesBefore: a session that is opened again reaches the store whose calls are counted as its own value.
func TestPassesBefore(t *testing.T) {
	drivertest.PassesBefore(t, memstore.New(nil), func(inner driver.Store) driver.Store { return measure.NewCounter(inner) })
}
