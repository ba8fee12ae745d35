// SPDX-License-Identifier: Apache-2.0

package sqlfence_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence/sqlfence"
	"github.com/fencelock/fencelock/store/memstore"
)

// Do raises the fence of the lock and runs a transaction behind it. A holder whose token is
// stale gets fence.ErrStale, and its transaction is rolled back.
func ExampleTable_Do() {
	ctx := context.Background()
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	guard, err := sqlfence.NewTable(sqlfence.PostgreSQL, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, guard.Schema()); err != nil {
		log.Fatal(err)
	}
	locks, err := fencelock.New(memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	err = locks.Do(ctx, "orders/42", func(ctx context.Context, _ *fencelock.Lease) error {
		return guard.Do(ctx, db, "orders/42", func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE orders SET state = 'paid' WHERE id = 42")
			return err
		})
	})
	fmt.Println("written:", err == nil)
	// Output: written: true
}

// A row that keeps the newest token in one of its columns needs no table of fences.
func ExampleRow_Update() {
	ctx := context.Background()
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	row, err := sqlfence.NewRow(sqlfence.PostgreSQL, &sqlfence.RowOptions{Table: "orders", Key: "id"})
	if err != nil {
		log.Fatal(err)
	}
	locks, err := fencelock.New(memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	err = locks.Do(ctx, "orders/42", func(ctx context.Context, _ *fencelock.Lease) error {
		return row.Update(ctx, db, "orders/42", 42, "state = $1", "paid")
	})
	fmt.Println("written:", err == nil)
	// Output: written: true
}
