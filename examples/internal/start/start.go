// SPDX-License-Identifier: Apache-2.0

// Package start opens the store of an example by its URL and ends the example cleanly.
package start

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/fencelock/fencelock"
	_ "github.com/fencelock/fencelock/store/redisstore" // redis://, valkey://
	_ "github.com/fencelock/fencelock/store/sqlstore"   // postgres://, mysql://
)

// Main runs an example with a client on the store of FENCELOCK_STORE, by default a Redis on this machine, until it
// returns or is interrupted.
func Main(run func(ctx context.Context, locks *fencelock.Client) error) {
	if err := locked(run); err != nil {
		slog.Error("the example failed", "error", err)
		os.Exit(1)
	}
}

// locked closes the client before the store.
func locked(run func(ctx context.Context, locks *fencelock.Client) error) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	store, err := fencelock.OpenStore(ctx, Env("FENCELOCK_STORE", "redis://localhost:6379"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	locks, err := fencelock.New(store, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.Close(context.WithoutCancel(ctx))) }()
	err = run(ctx, locks)
	if ctx.Err() != nil {
		return nil // it was asked to end
	}
	return err
}

// Env is a variable of the environment, or what stands for it.
func Env(name, otherwise string) string { return cmp.Or(os.Getenv(name), otherwise) }
