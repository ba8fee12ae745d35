// SPDX-License-Identifier: Apache-2.0

// Command consul is the program on the page of consullock.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/consullock"
	"github.com/fencelock/fencelock/store/redisstore"
)

// locker is what the program needs of a lock. Consul's *api.Lock has these methods, too.
type locker interface {
	Lock(stop <-chan struct{}) (lost <-chan struct{}, err error)
	Unlock() error
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("worker", "error", err)
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
	return lead(ctx, consullock.New(client, "service/leader", "10.0.0.7:8080")) // was: consul.LockKey("service/leader")
}

func lead(ctx context.Context, lock locker) error {
	lost, err := lock.Lock(ctx.Done())
	if err != nil || lost == nil { // nil: ctx ended first
		return err
	}
	slog.Info("this replica leads")
	select {
	case <-lost: // another replica may lead soon
	case <-ctx.Done():
	}
	return lock.Unlock()
}
