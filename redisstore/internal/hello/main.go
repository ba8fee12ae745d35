// SPDX-License-Identifier: Apache-2.0

// Command hello is the first program of the README with its locks in Redis. Its
// test sees to it that nothing but the store differs.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/redisstore"
)

func main() {
	ctx := context.Background()
	store, err := redisstore.Open(ctx, "redis://localhost:6379", nil)
	if err != nil {
		log.Fatal(err)
	}
	locks, err := fencelock.New(store, nil) // one client per process
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)
	err = locks.Do(ctx, "orders/42", func(ctx context.Context, l *fencelock.Lease) error {
		// ctx ends if the lease is lost. Give the token to what you write to:
		// UPDATE orders SET …, fence = $token WHERE id = 42 AND fence <= $token
		fmt.Println("holding", l.Name(), "with token", l.Token())
		return nil
	})
	if err != nil { // errors.Is(err, fencelock.ErrLost): somebody else may have worked on it
		log.Fatal(err)
	}
}
