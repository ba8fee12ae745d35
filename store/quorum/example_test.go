// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/quorum"
)

// One of three nodes loses everything, and the lease stays.
func Example() {
	ctx := context.Background()
	var nodes []quorum.Node
	var stores []*memstore.Store
	for _, name := range []string{"a", "b", "c"} {
		s := memstore.New(&memstore.Options{Grace: true})
		stores = append(stores, s)
		nodes = append(nodes, quorum.Node{Name: name, Store: s})
	}
	store, err := quorum.New(nodes, &quorum.Options{Alarm: func(quorum.Alarm) {}})
	if err != nil {
		log.Fatal(err)
	}
	client, err := fencelock.New(store, &fencelock.Options{Require: fencelock.Correctness})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	lease, err := client.Mutex("orders/42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	stores[1].Reset()
	_, err = client.Mutex("orders/42").TryLock(ctx)
	fmt.Println("held:", lease.Valid(), "- a second TryLock fails:", err != nil)
	fmt.Println("unlock:", lease.Unlock(ctx))
	// Output:
	// held: true - a second TryLock fails: true
	// unlock: <nil>
}
