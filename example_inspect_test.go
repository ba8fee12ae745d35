// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// Three in the morning: who holds it, and how is it taken away without harm?
func ExampleClient_Break() {
	ctx := context.Background()
	store := memstore.New(nil)
	job, err := fencelock.New(store, &fencelock.Options{Owner: "import@host-a:17"})
	if err != nil {
		log.Fatal(err)
	}
	defer job.Close(ctx)
	stuck, err := job.Mutex("import/eu", fencelock.Reason("nightly import")).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	operator, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer operator.Close(ctx)
	for st, err := range operator.List(ctx, "import/") {
		if err != nil {
			log.Fatal(err)
		}
		holder := st.Holders[0]
		fmt.Printf("%s: %s (%s), token %v, %d waiting\n",
			st.Name, holder.Record.Owner, holder.Record.Reason, holder.Token, st.Waiting)

		// By token: if the lock has changed hands since, its new holder keeps it.
		fence, err := operator.Break(ctx, st.Name, holder.Token)
		if err != nil {
			log.Fatal(err)
		}
		// Raise the fence of the resource to this token: then the old holder
		// can do no more harm, whether it has been notified yet or not.
		fmt.Println("fence above the old token:", fence > stuck.Token())
	}
	err = stuck.Unlock(ctx)
	fmt.Println("the old holder is notified:", errors.Is(err, fencelock.ErrLost), errors.Is(err, fencelock.ErrBroken))
	// Output:
	// import/eu: import@host-a:17 (nightly import), token 256, 0 waiting
	// fence above the old token: true
	// the old holder is notified: true true
}
