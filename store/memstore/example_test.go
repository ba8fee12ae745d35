// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// Two clients of one store exclude each other as two processes do.
func Example() {
	ctx := context.Background()
	store := memstore.New(nil)
	defer store.Close()
	locks, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)
	others, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer others.Close(ctx)

	lease, err := locks.Mutex("orders/42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = others.Mutex("orders/42").TryLock(ctx)
	fmt.Println("busy:", errors.Is(err, fencelock.ErrBusy))
	if err := lease.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	err = others.Do(ctx, "orders/42", func(_ context.Context, l *fencelock.Lease) error {
		fmt.Println("the token rises:", l.Token() > lease.Token())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// busy: true
	// the token rises: true
}
