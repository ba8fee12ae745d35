// SPDX-License-Identifier: Apache-2.0

// Command cron is the program on the page of cronlock.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/cronlock"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/robfig/cron/v3"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("scheduler", "error", err)
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

	schedule, err := cron.ParseStandard("CRON_TZ=Europe/Berlin */5 * * * *")
	if err != nil {
		return err
	}
	once, err := cronlock.Once[cron.Job](client, "report", schedule, nil)
	if err != nil {
		return err
	}
	c := cron.New()
	c.Schedule(schedule, once(cron.FuncJob(report)))
	c.Start()
	<-ctx.Done()
	<-c.Stop().Done()
	return nil
}

func report() { slog.Info("report: this replica runs it") }
