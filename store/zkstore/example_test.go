// SPDX-License-Identifier: Apache-2.0

package zkstore_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/zkstore"
)

// A URL such as zk://a.example.com,b.example.com,c.example.com names the servers of the ensemble.
func Example() {
	ctx := context.Background()
	store, err := zkstore.Open(ctx, os.Getenv("ZOOKEEPER_URL"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	locks, err := fencelock.New(store, &fencelock.Options{Require: fencelock.Correctness})
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
