// SPDX-License-Identifier: Apache-2.0

// Command hello is the first program of the README: it acquires a lock in Redis, prints
// the token and releases the lock.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/redisstore"
)

func main() {
	if err := run(context.Background()); err != nil { // errors.Is(err, fencelock.ErrLost): another process may hold the lock by now
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	store, err := redisstore.Open(ctx, "redis://localhost:6379", nil)
	if err != nil {
		return err
	}
	defer store.Close()
	locks, err := fencelock.New(store, nil) // one client per process
	if err != nil {
		return err
	}
	defer locks.Close(ctx)
	return locks.Do(ctx, "orders/42", func(ctx context.Context, l *fencelock.Lease) error {
		// ctx is canceled if the lock is lost. Let the database check the token,
		// with a column fence BIGINT NOT NULL DEFAULT 0:
		// UPDATE orders SET …, fence = $token WHERE id = 42 AND fence <= $token (no row: rejected)
		fmt.Println("holding", l.Name(), "with token", l.Token())
		return nil
	})
}
