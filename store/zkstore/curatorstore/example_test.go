// SPDX-License-Identifier: Apache-2.0

package curatorstore_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/zkstore/curatorstore"
)

// A Go service takes the lock that Java services take with
// new InterProcessMutex(client, "/locks/orders/42").
func Example() {
	ctx := context.Background()
	store, err := curatorstore.Open(ctx, os.Getenv("ZOOKEEPER_URL"), nil) // curator://zk1,zk2,zk3/locks
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
