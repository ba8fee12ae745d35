// SPDX-License-Identifier: Apache-2.0

// Command migrate is the program on the page of migratelock.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/migratelock"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/golang-migrate/migrate/v4"
	_ "github.com/golang-migrate/migrate/v4/database/mysql"
	_ "github.com/golang-migrate/migrate/v4/source/file"
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

	m, err := migrate.New("file://migrations", os.Getenv("DATABASE_URL")) // mysql://user:password@tcp(host:3306)/orders
	if err != nil {
		return err
	}
	defer m.Close()
	err = migratelock.Run(ctx, client, "migrate/orders", m.GracefulStop, m.Up)
	if errors.Is(err, migrate.ErrNoChange) {
		return nil
	}
	return err
}
