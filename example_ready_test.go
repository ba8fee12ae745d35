// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// A pod is ready when new locks can be had.
func ExampleClient_Ready() {
	store := memstore.New(&memstore.Options{Grace: true, MaxTTL: 15 * time.Second})
	locks, err := fencelock.New(store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close(context.Background())

	ready := func(ctx context.Context) string {
		err := locks.Ready(ctx)
		switch {
		case errors.Is(err, fencelock.ErrGrace):
			return "503: no new locks for now"
		case err != nil:
			return "503: " + err.Error()
		}
		return "200: ready"
	}
	fmt.Println(ready(context.Background()))
	store.Reset() // the server lost its data
	fmt.Println(ready(context.Background()))
	// Output:
	// 200: ready
	// 503: no new locks for now
}
