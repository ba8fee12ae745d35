// SPDX-License-Identifier: Apache-2.0

// Command orders packs orders that several replicas compete for. The lock is in Redis, the orders are in PostgreSQL, and
// the guard lets the database reject a replica that was paused and writes late.
//
//	docker compose -f examples/compose.yaml up -d
//	go run ./examples/orders & go run ./examples/orders
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/examples/internal/start"
	"github.com/fencelock/fencelock/fence/sqlfence"
	_ "github.com/jackc/pgx/v5/stdlib"
)

func main() { start.Main(run) }

func run(ctx context.Context, locks *fencelock.Client) error {
	db, err := sql.Open("pgx", start.Env("DATABASE_URL", "postgres://postgres:postgres@localhost:5432/postgres"))
	if err != nil {
		return err
	}
	defer db.Close()
	guard, err := sqlfence.NewTable(sqlfence.PostgreSQL, nil)
	if err != nil {
		return err
	}
	const orders = "CREATE TABLE IF NOT EXISTS orders (id INT PRIMARY KEY, state TEXT NOT NULL)"
	for _, statement := range []string{orders, "INSERT INTO orders SELECT n, 'new' FROM generate_series(1, 5) n ON CONFLICT DO NOTHING", guard.Schema()} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	for id := 1; id <= 5; id++ {
		if err := pack(ctx, locks, db, guard, id); err != nil {
			return err
		}
	}
	return nil
}

// pack packs an order, once. Lock and fence have the same name.
func pack(ctx context.Context, locks *fencelock.Client, db *sql.DB, guard *sqlfence.Table, id int) error {
	name := fmt.Sprint("orders/", id)
	return locks.Do(ctx, name, func(ctx context.Context, l *fencelock.Lease) error {
		return guard.Do(ctx, db, name, func(ctx context.Context, tx *sql.Tx) error {
			done, err := tx.ExecContext(ctx, "UPDATE orders SET state = 'packed' WHERE id = $1 AND state = 'new'", id)
			if err != nil {
				return err
			}
			if n, err := done.RowsAffected(); n == 1 {
				fmt.Fprintln(os.Stdout, "packed order", id, "with token", l.Token())
				return err
			}
			return nil // another replica has packed it
		})
	})
}
