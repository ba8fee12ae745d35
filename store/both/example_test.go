// SPDX-License-Identifier: Apache-2.0

package both_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/both"
	"github.com/fencelock/fencelock/store/memstore"
)

// A setting of the deployment decides which locks a process takes. Here both stores are in memory; in production the old one
// is of a format that the other services use, and the next one is fencelock's.
func Example() {
	old, next := memstore.New(nil), memstore.New(nil)
	ctx := context.Background()

	open := func(phase string) *fencelock.Client {
		var store driver.Store
		var err error
		switch phase {
		case "old":
			store = old
		case "both":
			store, err = both.New(both.Stores{Old: old, New: next}, nil)
		case "new":
			store = next
		default:
			err = fmt.Errorf("phase is %q; use old, both or new", phase)
		}
		if err != nil {
			log.Fatal(err)
		}
		locks, err := fencelock.New(store, nil)
		if err != nil {
			log.Fatal(err)
		}
		return locks
	}

	moving := open("both")
	defer moving.Close(ctx)
	lease, err := moving.Mutex("orders/42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)
	for _, phase := range []string{"old", "both", "new"} {
		locks := open(phase)
		_, err := locks.Mutex("orders/42").TryLock(ctx)
		fmt.Println(phase, "is excluded:", errors.Is(err, fencelock.ErrBusy))
		locks.Close(ctx)
	}
	// Output:
	// old is excluded: true
	// both is excluded: true
	// new is excluded: true
}
