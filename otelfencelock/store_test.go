// SPDX-License-Identifier: Apache-2.0

package otelfencelock

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestConformance: a store that is measured behaves as before.
func TestConformance(t *testing.T) {
	drivertest.RunInBubble(t, func(t *testing.T) *drivertest.Harness {
		m, err := newMeters(noop.NewMeterProvider(), "memory")
		must.OK(t, err)
		mem := memstore.New(&memstore.Options{Grace: true})
		return &drivertest.Harness{
			Open:    func() (driver.Store, error) { return &meteredStore{Store: mem, m: m}, nil },
			Reset:   func() error { mem.Reset(); return nil },
			Restart: func() error { mem.Restart(); return nil },
			Slack:   time.Millisecond,
		}
	})
}

// TestPassesBefore: a session that is opened again reaches the store that is measured as its own value.
func TestPassesBefore(t *testing.T) {
	m, err := newMeters(noop.NewMeterProvider(), "memory")
	must.OK(t, err)
	drivertest.PassesBefore(t, memstore.New(nil), func(inner driver.Store) driver.Store { return &meteredStore{Store: inner, m: m} })
}
