// SPDX-License-Identifier: Apache-2.0

// Command occurrence is the second program on the page of cronlock.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/cronlock"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/robfig/cron/v3"
)

func main() {
	if err := run(context.Background()); err != nil {
		slog.Error("month's end", "error", err)
		os.Exit(1)
	}
}

// run is for a program that a timer starts on every host, some seconds apart.
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

	schedule, err := cron.ParseStandard("CRON_TZ=America/New_York 30 3 1 * *") // the first of each month
	if err != nil {
		return err
	}
	occurrence, err := cronlock.Occurrence(schedule, time.Now())
	if err != nil {
		return err
	}
	result, err := client.Once("months-end", 48*time.Hour).Do(ctx, occurrence, closeBooks)
	if errors.Is(err, fencelock.ErrLost) {
		slog.Error("another host may run it again", "occurrence", occurrence)
	}
	slog.Info("months-end", "occurrence", occurrence, "outcome", result)
	return err
}

// closeBooks stops when ctx ends: the lock is lost then.
func closeBooks(ctx context.Context, _ *fencelock.Lease) error { return ctx.Err() }
