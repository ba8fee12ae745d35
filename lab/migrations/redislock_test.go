// SPDX-License-Identifier: Apache-2.0

package migrations

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/fencelock/fencelock"
)

// withRedislock does the work while holding fencelock's lock and redislock's.
func withRedislock(ctx context.Context, locks *fencelock.Client, client *redislock.Client, name string, do work) error {
	return locks.Do(ctx, name, func(ctx context.Context, l *fencelock.Lease) (err error) {
		const ttl = 8 * time.Second // as in the version that has redislock only
		old, err := obtain(ctx, client, name, ttl)
		if err != nil {
			return err
		}
		held, stop := keep(ctx, ttl/3, func(ctx context.Context) error { return old.Refresh(ctx, ttl, nil) })
		defer func() {
			stop()
			err = errors.Join(err, old.Release(context.WithoutCancel(ctx)))
		}()
		return do(held, l)
	})
}

// obtain waits as long as the context allows; Obtain itself gives up after the TTL.
func obtain(ctx context.Context, client *redislock.Client, name string, ttl time.Duration) (*redislock.Lock, error) {
	for {
		old, err := client.Obtain(ctx, name, ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)})
		late := errors.Is(err, redislock.ErrNotObtained) || errors.Is(err, context.DeadlineExceeded)
		if err == nil || ctx.Err() != nil || !late {
			return old, err
		}
	}
}
