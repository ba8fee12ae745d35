// SPDX-License-Identifier: Apache-2.0

package shard_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/shard"
)

// Two stores share the names. In production each is on its own server.
func Example() {
	store, err := shard.New([]shard.Member{
		{Name: "a", Store: memstore.New(nil)},
		{Name: "b", Store: memstore.New(nil)},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	locks, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer locks.Close(ctx)
	for _, name := range []string{"orders/42", "orders/43"} {
		err := locks.Do(ctx, name, func(ctx context.Context, l *fencelock.Lease) error {
			fmt.Println(l.Name(), "is kept by", store.Owner(l.Name()))
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// orders/42 is kept by b
	// orders/43 is kept by a
}
