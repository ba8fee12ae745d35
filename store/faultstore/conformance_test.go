// SPDX-License-Identifier: Apache-2.0

package faultstore_test

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestConformanceWithoutAFault: a wrapper that injects nothing changes nothing.
func TestConformanceWithoutAFault(t *testing.T) {
	drivertest.RunInBubble(t, func(t *testing.T) *drivertest.Harness {
		mem := memstore.New(&memstore.Options{Grace: true})
		return &drivertest.Harness{
			Open:    func() (driver.Store, error) { return faultstore.Wrap(mem, faultstore.None(), nil) },
			Reset:   func() error { mem.Reset(); return nil },
			Restart: func() error { mem.Restart(); return nil },
			Slack:   time.Millisecond,
		}
	})
}

// TestPassesBefore: a session that is opened again reaches the wrapped store as its own value.
func TestPassesBefore(t *testing.T) {
	drivertest.PassesBefore(t, memstore.New(nil), func(inner driver.Store) driver.Store {
		s, err := faultstore.Wrap(inner, faultstore.None(), nil)
		must.OK(t, err)
		return s
	})
}
