// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/memstore"
)

// Nothing starts before the database and the cache are ready, wherever they
// and those who wait for them run. A report may be repeated.
func ExampleCountDownLatch() {
	ctx := context.Background()
	c, err := fencelock.New(memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)
	ready := c.CountDownLatch("release-7/ready", time.Hour, "db", "cache")
	if err := ready.Arm(ctx); err != nil { // every process may
		log.Fatal(err)
	}

	opened := make(chan error)
	go func() { opened <- ready.Wait(ctx) }()

	for _, party := range []string{"db", "db", "cache"} {
		if err := ready.CountDown(ctx, party); err != nil {
			log.Fatal(err)
		}
		rest, err := ready.Remaining(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(party, "is ready, remaining:", rest)
	}
	fmt.Println("open:", <-opened)
	// Output:
	// db is ready, remaining: [cache]
	// db is ready, remaining: [cache]
	// cache is ready, remaining: []
	// open: <nil>
}
