// SPDX-License-Identifier: Apache-2.0

package migrations

import (
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/go-redsync/redsync/v4"
)

// withRedsync does the work while holding fencelock's lock and redsync's.
func withRedsync(ctx context.Context, locks *fencelock.Client, rs *redsync.Redsync, name string, do work) error {
	return locks.Do(ctx, name, func(ctx context.Context, l *fencelock.Lease) (err error) {
		const expiry = 8 * time.Second // as in the version that has redsync only
		old := rs.NewMutex(name, redsync.WithExpiry(expiry))
		if err := lockRedsync(ctx, old); err != nil {
			return err
		}
		held, stop := keep(ctx, expiry/3, func(ctx context.Context) error {
			ok, err := old.ExtendContext(ctx)
			if err == nil && !ok {
				err = redsync.ErrExtendFailed
			}
			return err
		})
		defer func() {
			stop()
			_, uerr := old.UnlockContext(context.WithoutCancel(ctx))
			err = errors.Join(err, uerr)
		}()
		return do(held, l)
	})
}

// lockRedsync waits as long as the context allows; LockContext itself gives up after
// 32 tries.
func lockRedsync(ctx context.Context, old *redsync.Mutex) error {
	for {
		err := old.LockContext(ctx)
		var taken *redsync.ErrTaken
		if err == nil || ctx.Err() != nil || !errors.As(err, &taken) && !errors.Is(err, redsync.ErrFailed) {
			return err
		}
	}
}
