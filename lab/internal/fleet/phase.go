// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/both"
)

// Phase is which locks a process takes, and how.
type Phase string

// The phases. Native is the lock of phase old, taken by the library that the fleet comes from.
const (
	Native Phase = "native"
	Old    Phase = "old"
	Both   Phase = "both"
	New    Phase = "new"
	Grace  Phase = "grace" // as New, and it asks for grace
)

// openPhase opens the store of a phase. All three are settings of the deployment.
func openPhase(ctx context.Context, phase Phase, oldURL, newURL string) (driver.OpenedStore, error) {
	switch phase {
	case "old":
		return fencelock.OpenStore(ctx, oldURL)
	case "new":
		return fencelock.OpenStore(ctx, newURL)
	case "both":
		old, err := fencelock.OpenStore(ctx, oldURL)
		if err != nil {
			return nil, err
		}
		next, err := fencelock.OpenStore(ctx, newURL)
		if err != nil {
			return nil, errors.Join(err, old.Close())
		}
		store, err := both.New(both.Stores{Old: old, New: next}, nil)
		if err != nil {
			return nil, errors.Join(err, next.Close(), old.Close())
		}
		return stores{store, old, next}, nil
	}
	return nil, fmt.Errorf("the phase is %q; use old, both or new", phase)
}

// stores are the two stores of phase both as one, which has to be closed.
type stores struct {
	*both.Store
	old, next driver.OpenedStore
}

// Close closes the two stores, after the client.
func (s stores) Close() error { return errors.Join(s.next.Close(), s.old.Close()) }
