// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// Shutting down: Close notifies holders and waiters and releases the locks, so that
// the next process need not wait for the TTL.
func ExampleClient_Close() {
	ctx := context.Background()
	store := memstore.New(nil)
	c, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	working := make(chan struct{})
	worked := make(chan error)
	go func() {
		worked <- c.Do(ctx, "orders/42", func(ctx context.Context, _ *fencelock.Lease) error {
			close(working)
			<-ctx.Done() // the work stops here
			return context.Cause(ctx)
		})
	}()
	<-working

	// On SIGTERM; the time it may take is yours to bound.
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	fmt.Println("closed:", c.Close(bounded))
	fmt.Println("the worker was notified:", errors.Is(<-worked, fencelock.ErrClosed))

	next, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer next.Close(ctx)
	lease, err := next.Mutex("orders/42").TryLock(ctx) // at once
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Unlock(ctx))
	// Output:
	// closed: <nil>
	// the worker was notified: true
	// <nil>
}
