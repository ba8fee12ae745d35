// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// A writer builds an index, then goes on as a reader: no other writer can come
// in between, and other readers are let in.
func ExampleRWMutex_Downgrade() {
	ctx := context.Background()
	store := memstore.New(nil)
	a, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close(ctx)
	b, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close(ctx)

	index := a.RWMutex("index")
	lease, err := index.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = b.RWMutex("index").TryRLock(ctx)
	fmt.Println("b may read while a writes:", !errors.Is(err, fencelock.ErrBusy))

	if err := index.Downgrade(ctx, lease); err != nil {
		log.Fatal(err)
	}
	reader, err := b.RWMutex("index").TryRLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = b.RWMutex("index").TryLock(ctx)
	fmt.Println("b may read, and write:", reader.Valid(), !errors.Is(err, fencelock.ErrBusy))

	fmt.Println(lease.Unlock(ctx), reader.Unlock(ctx))
	// Output:
	// b may read while a writes: false
	// b may read, and write: true false
	// <nil> <nil>
}
