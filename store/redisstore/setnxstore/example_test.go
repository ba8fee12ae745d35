// SPDX-License-Identifier: Apache-2.0

package setnxstore_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/redisstore/setnxstore"
)

// A Go service takes the lock that other services take with
// SET orders/42 … NX PX.
func Example() {
	ctx := context.Background()
	address, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	client := redis.NewClient(address)
	defer client.Close()
	store, err := setnxstore.New(client, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	locks, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)
	lease, err := locks.Mutex("orders/42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("holding", lease.Name())
	if err := lease.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
}
