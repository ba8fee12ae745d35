// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// The everyday call. It needs no server.
func Example() {
	ctx := context.Background()
	locks, err := fencelock.New(memstore.New(nil), nil) // one client per process
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	err = locks.Do(ctx, "orders/42", func(ctx context.Context, l *fencelock.Lease) error {
		// ctx ends if the lease is lost. Give the token to what you write to:
		// UPDATE orders SET …, fence = $token WHERE id = 42 AND fence <= $token (no row: rejected)
		fmt.Println("holding", l.Name(), "with token", l.Token())
		return nil
	})
	if err != nil {
		log.Fatal(err) // errors.Is(err, fencelock.ErrLost): another process may have worked on it
	}
	// Output: holding orders/42 with token 256
}
