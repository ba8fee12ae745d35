// SPDX-License-Identifier: Apache-2.0

package concurrencystore_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/etcdstore/concurrencystore"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A service takes the lock that others take with etcdctl lock /locks/a.
func Example() {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Getenv("ETCD_ENDPOINT")}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	store, err := concurrencystore.New(client, &concurrencystore.Options{Prefix: "/locks/"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	locks, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)
	err = locks.Do(ctx, "a", func(ctx context.Context, l *fencelock.Lease) error {
		fmt.Println("holding", l.Name())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
