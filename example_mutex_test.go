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

// Lock waits for the lock, TryLock does not: its error names the holder.
func ExampleMutex() {
	ctx := context.Background()
	store := memstore.New(nil)
	billing, err := fencelock.New(store, &fencelock.Options{Owner: "billing@host-a:17"})
	if err != nil {
		log.Fatal(err)
	}
	defer billing.Close(ctx)
	shipping, err := fencelock.New(store, &fencelock.Options{Owner: "shipping@host-b:4"})
	if err != nil {
		log.Fatal(err)
	}
	defer shipping.Close(ctx)

	lease, err := billing.Mutex("orders/42", fencelock.Reason("monthly invoice")).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	_, err = shipping.Mutex("orders/42").TryLock(ctx)
	var busy *fencelock.BusyError
	if errors.As(err, &busy) {
		holder := busy.Holders[0].Record
		fmt.Printf("%s is held by %s: %s\n", busy.Name, holder.Owner, holder.Reason)
	}

	if err := lease.Unlock(ctx); err != nil {
		log.Fatal(err) // lost before, or not confirmed by the store
	}
	next, err := shipping.Mutex("orders/42").TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("next holder, greater token:", next.Token() > lease.Token())
	fmt.Println(next.Unlock(ctx))
	// Output:
	// orders/42 is held by billing@host-a:17: monthly invoice
	// next holder, greater token: true
	// <nil>
}
