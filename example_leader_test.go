// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// Every replica runs the same. One leads; when it stops, resigns, loses the
// lease or dies, another does. After a loss it campaigns again by itself.
func ExampleElection() {
	store := memstore.New(nil)
	leads := make(chan string) // who began to lead
	ended := make(chan error)  // what Run returned

	replica := func(ctx context.Context, who string) {
		c, err := fencelock.New(store, &fencelock.Options{Owner: who})
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close(context.Background())
		ended <- c.Election("scheduler").Run(ctx, func(ctx context.Context, term *fencelock.Lease) error {
			leads <- who
			<-ctx.Done() // work until the term ends; term.Token() fences it
			return ctx.Err()
		})
	}

	ctxA, stopA := context.WithCancel(context.Background())
	go replica(ctxA, "a")
	fmt.Println("leads:", <-leads)

	ctxB, stopB := context.WithCancel(context.Background())
	go replica(ctxB, "b")
	stopA() // a deployment, say
	fmt.Println("a:", <-ended)
	fmt.Println("leads:", <-leads)
	stopB()
	fmt.Println("b:", <-ended)
	// Output:
	// leads: a
	// a: context canceled
	// leads: b
	// b: context canceled
}
