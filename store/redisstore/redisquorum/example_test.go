// SPDX-License-Identifier: Apache-2.0

package redisquorum_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/redisstore/redisquorum"
)

// A URL such as quorum://a.example.com,b.example.com,c.example.com names the servers. Add
// ?grace=true for locks that protect data.
func Example() {
	ctx := context.Background()
	store, err := redisquorum.Open(ctx, os.Getenv("QUORUM_URL"), nil)
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
