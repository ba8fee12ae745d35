// SPDX-License-Identifier: Apache-2.0

package rueidisstore_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/redis/rueidis"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/redisstore/rueidisstore"
)

// A program that has a rueidis client already shares it with the locks.
func Example() {
	ctx := context.Background()
	client, err := rueidis.NewClient(rueidis.MustParseURL(os.Getenv("REDIS_URL")))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	store, err := rueidisstore.New(client, nil)
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
