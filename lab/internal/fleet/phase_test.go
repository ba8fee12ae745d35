// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// counted is a store that counts how many of its kind are open.
type counted struct {
	driver.OpenedStore
	open *int
}

func (c counted) Close() error {
	*c.open--
	return c.OpenedStore.Close()
}

// TestStoresOfAPhaseAreClosed: by Close of the store, and if the second of two cannot be opened.
func TestStoresOfAPhaseAreClosed(t *testing.T) {
	open := 0
	driver.Register(func(context.Context, string, driver.OpenOptions) (driver.OpenedStore, error) {
		open++
		return counted{memstore.New(nil), &open}, nil
	}, "counted")
	driver.Register(func(context.Context, string, driver.OpenOptions) (driver.OpenedStore, error) {
		return nil, errors.New("the server is down")
	}, "down")
	for phase, want := range map[Phase]int{Old: 1, Both: 2, New: 1} {
		store, err := openPhase(t.Context(), phase, "counted://", "counted://")
		must.OK(t, err)
		if open != want {
			t.Errorf("phase %s has opened %d stores, want %d", phase, open, want)
		}
		if err := store.Close(); err != nil || open != 0 {
			t.Errorf("phase %s: %v, and %d stores are open after Close", phase, err, open)
		}
	}
	if _, err := openPhase(t.Context(), Both, "counted://", "down://"); err == nil || open != 0 {
		t.Errorf("the new store is down: %v, and %d stores are open", err, open)
	}
}
