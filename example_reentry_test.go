// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// Re-entry goes by context: a function that locks can be called with the lock
// held, and a guard finds the token without an argument for it.
func Example_reentry() {
	ctx := context.Background()
	c, err := fencelock.New(memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)

	save := func(ctx context.Context, what string) {
		fmt.Println("save", what, "with token", fencelock.FromContext(ctx, "orders/42").Token())
	}
	addLine := func(ctx context.Context) error {
		return c.Do(ctx, "orders/42", func(ctx context.Context, _ *fencelock.Lease) error {
			save(ctx, "line")
			return nil
		})
	}

	err = c.Do(ctx, "orders/42", func(ctx context.Context, _ *fencelock.Lease) error {
		save(ctx, "order")
		return addLine(ctx) // this context carries the lease: no round trip, no deadlock
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// save order with token 256
	// save line with token 256
}
