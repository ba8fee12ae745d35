// SPDX-License-Identifier: Apache-2.0

// Command k8s is the program on the page of k8slock, with client-go alone.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/k8slock"
	"github.com/fencelock/fencelock/store/redisstore"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
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
	worked := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { defer close(worked); reconcile(ctx) },
			OnStoppedLeading: func() { slog.Info("this candidate does not lead") },
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx) // the context of New: it ends when the lock is lost
	if elector.IsLeader() {
		<-worked // before Close gives the lock back
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func reconcile(ctx context.Context) {
	slog.Info("this candidate leads")
	<-ctx.Done()
}
