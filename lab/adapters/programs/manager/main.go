// SPDX-License-Identifier: Apache-2.0

// Command manager is the program on the page of k8slock, with controller-runtime.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/k8slock"
	"github.com/fencelock/fencelock/store/redisstore"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
)

func main() {
	if err := run(signals.SetupSignalHandler()); err != nil {
		slog.Error("operator", "error", err)
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

	lock, ctx, err := k8slock.New[resourcelock.LeaderElectionRecord](ctx, client, "operators/orders", nil)
	if err != nil {
		return err
	}
	defer lock.Close(context.Background())
	cluster, err := config.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := manager.New(cluster, manager.Options{
		LeaderElection:                      true,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true, // after the controllers have ended
	})
	if err != nil {
		return err
	}
	// Add the controllers here.
	err = mgr.Start(ctx) // the context of New: it ends when the lock is lost
	if cause := context.Cause(ctx); errors.Is(cause, fencelock.ErrLost) {
		return errors.Join(err, cause) // Start returns nil if its context ends
	}
	return err
}
