// SPDX-License-Identifier: Apache-2.0

package memcachestore_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memcachestore"
)

// A URL such as memcached://localhost:11211 names the server.
func Example() {
	ctx := context.Background()
	store, err := memcachestore.Open(ctx, os.Getenv("MEMCACHED_URL"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	locks, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	err = locks.Do(ctx, "orders/42", func(ctx context.Context, l *fencelock.Lease) error {
		fmt.Println("holding", l.Name())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
