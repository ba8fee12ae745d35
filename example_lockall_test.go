// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// Transfers in both directions at once. Locked one by one they could wait for
// each other forever; LockAll takes the names in one order.
func ExampleClient_LockAll() {
	ctx := context.Background()
	c, err := fencelock.New(memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)

	balance := map[string]int{"alice": 100, "bob": 100}
	transfer := func(from, to string, amount int) {
		set, err := c.LockAll(ctx, []string{"account/" + from, "account/" + to})
		if err != nil {
			log.Fatal(err)
		}
		balance[from] -= amount // set.Context() ends if one of the leases is lost
		balance[to] += amount
		if err := set.Unlock(ctx); err != nil {
			log.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { transfer("alice", "bob", 3) })
		all.Go(func() { transfer("bob", "alice", 1) })
	}
	all.Wait()
	fmt.Println(balance)
	// Output: map[alice:60 bob:140]
}
