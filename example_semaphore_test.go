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

// At most three exports at a time over all processes, and a big one counts for
// two. The limit can be changed while everything runs.
func ExampleSemaphore() {
	ctx := context.Background()
	c, err := fencelock.New(memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)
	exports := c.Semaphore("exports", 3)

	big, err := exports.Acquire(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	small, err := exports.Acquire(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	_, err = exports.TryAcquire(ctx, 1)
	fmt.Println("a fourth is let in:", !errors.Is(err, fencelock.ErrBusy))

	if err := exports.SetLimit(ctx, 4); err != nil { // for all processes
		log.Fatal(err)
	}
	fourth, err := exports.TryAcquire(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("after raising the limit:", fourth.Name())

	for _, permit := range []*fencelock.Lease{big, small, fourth} {
		if err := permit.Unlock(ctx); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// a fourth is let in: false
	// after raising the limit: exports
}
