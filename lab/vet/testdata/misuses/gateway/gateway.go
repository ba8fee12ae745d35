// SPDX-License-Identifier: Apache-2.0

// Package gateway streams updates, in the shape of gRPC.
package gateway

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

type WatchRequest struct{ Topic string }
type Update struct{ Text string }

type Gateway struct {
	store driver.Store
	locks *fencelock.Client
	limit *fencelock.Semaphore
}

func (g *Gateway) next(ctx context.Context, topic string) (*Update, error) { return nil, io.EOF }

// Watch makes a client for each stream.
func (g *Gateway) Watch(r *WatchRequest, stream grpc.ServerStreamingServer[Update]) error {
	locks, err := fencelock.New(g.store, nil) // misuse: clientperrequest
	if err != nil {
		return err
	}
	defer locks.Close(context.Background())
	return locks.Do(stream.Context(), r.Topic, func(ctx context.Context, l *fencelock.Lease) error {
		for {
			u, err := g.next(stream.Context(), r.Topic) // misuse: outerctx
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := stream.Send(u); err != nil {
				return err
			}
		}
	})
}

// Poll leaks a permit when the caller goes away.
func (g *Gateway) Poll(ctx context.Context, topic string) (*Update, error) {
	permit, err := g.limit.Acquire(ctx, 1) // misuse: leaseleak
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
			u, err := g.next(permit.Context(), topic)
			if errors.Is(err, io.EOF) {
				continue
			}
			return u, errors.Join(err, permit.Unlock(ctx))
		}
	}
}
