// SPDX-License-Identifier: Apache-2.0

package pgxfence_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/pgxfence"
	"github.com/fencelock/fencelock/store/memstore"
)

// Do raises the fence of the lock and runs a transaction behind it. A batch with a token
// that is older than the newest one is rejected as a whole. The locks can be in any store;
// here they are in memory.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	guard, err := pgxfence.NewTable(nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := pool.Exec(ctx, guard.Schema()+"; CREATE TABLE IF NOT EXISTS jobs (id int, state text)"); err != nil {
		log.Fatal(err)
	}
	locks, err := fencelock.New(memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	err = locks.Do(ctx, "jobs/7", func(ctx context.Context, _ *fencelock.Lease) error {
		return guard.Do(ctx, pool, "jobs/7", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE jobs SET state = 'done' WHERE id = 7")
			return err
		})
	})
	fmt.Println("written:", err == nil)

	batch := &pgx.Batch{}
	batch.Queue("UPDATE jobs SET state = 'open' WHERE id = 7")
	late := fence.With(ctx, fence.Mark{Lock: "jobs/7", Token: 1})
	err = guard.SendBatch(late, pool, "jobs/7", batch).Close()
	fmt.Println("stale:", errors.Is(err, fence.ErrStale))
}
