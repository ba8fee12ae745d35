// SPDX-License-Identifier: Apache-2.0

// Command goose is the program on the page of gooselock.
package main

import (
	"context"
	"database/sql"
	"log/slog"
	"os"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/gooselock"
	"github.com/fencelock/fencelock/store/redisstore"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

func main() {
	if err := run(context.Background()); err != nil {
		slog.Error("migration", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	store, err := redisstore.Open(ctx, os.Getenv("REDIS_URL"), nil) // redis://localhost:6379
	if err != nil {
		return err
	}
	defer store.Close()
	client, err := fencelock.New(store, nil)
	if err != nil {
		return err
	}
	defer client.Close(context.Background())
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer db.Close()

	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("migrations"),
		goose.WithLocker(gooselock.New(client, "migrate/orders", nil)))
	if err != nil {
		return err
	}
	applied, err := provider.Up(ctx)
	slog.Info("migrated", "applied", len(applied))
	return err
}
