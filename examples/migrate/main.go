// SPDX-License-Identifier: Apache-2.0

// Command migrate changes a schema at start-up, on one replica at a time, and says for whom the others wait.
//
//	go run ./examples/migrate & go run ./examples/migrate
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/examples/internal/start"
)

func main() { start.Main(run) }

func run(ctx context.Context, locks *fencelock.Client) error {
	schema := locks.Mutex("migrate/orders", fencelock.Reason("schema 7"))
	lease, err := schema.TryLock(ctx)
	var busy *fencelock.BusyError
	if errors.As(err, &busy) && len(busy.Holders) > 0 {
		fmt.Println("waiting for", busy.Holders[0].Record.Owner, "with", busy.Holders[0].Record.Reason)
		lease, err = schema.Lock(ctx)
	}
	if err != nil {
		return err
	}
	ctx, stop := lease.WithContext(ctx) // it ends if the lock is lost
	defer stop()
	fmt.Println("migrating with token", lease.Token())
	select {
	case <-time.After(time.Second): // the migration, which does nothing where it was done
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), lease.Unlock(ctx))
	}
	return lease.Unlock(ctx)
}
