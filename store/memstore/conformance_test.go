// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestConformance holds every kind of server that memstore can stand for to the
// store clauses of docs/spec.md.
func TestConformance(t *testing.T) {
	kinds := map[string]*memstore.Options{
		"plain":    nil,
		"grace":    {Grace: true},
		"shards":   {Shards: 7, MinTTL: time.Second},
		"no push":  {NoPush: true},
		"polled":   {NoPush: true, Grace: true},
		"no queue": {NoQueue: true},
	}
	for name, opts := range kinds {
		t.Run(name, func(t *testing.T) {
			drivertest.RunInBubble(t, func(*testing.T) *drivertest.Harness {
				store := memstore.New(opts)
				return &drivertest.Harness{
					Open:    func() (driver.Store, error) { return store, nil },
					Reset:   func() error { store.Reset(); return nil },
					Restart: func() error { store.Restart(); return nil },
					Checkpoint: func() func() error {
						s := store.Snapshot()
						return func() error { store.Restore(s); return nil }
					},
					Slack: time.Millisecond,
				}
			})
		})
	}
}
