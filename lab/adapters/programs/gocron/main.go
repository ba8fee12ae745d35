// SPDX-License-Identifier: Apache-2.0

// Command gocron is the program on the page of gocronlock.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/gocronlock"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/go-co-op/gocron/v2"
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

	const period = time.Minute
	locker, err := gocronlock.NewLocker[gocron.Lock](client, &gocronlock.Options{Period: period})
	if err != nil {
		return err
	}
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		return err
	}
	if _, err := s.NewJob(gocron.DurationJob(period), gocron.NewTask(report), gocron.WithName("report")); err != nil {
		return err
	}
	s.Start()
	<-ctx.Done()
	return s.Shutdown()
}

func report() { slog.Info("report: this replica runs it") }
