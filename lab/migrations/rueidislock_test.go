// SPDX-License-Identifier: Apache-2.0

package migrations

import (
	"context"

	"github.com/fencelock/fencelock"
	"github.com/redis/rueidis/rueidislock"
)

// withRueidislock does the work while holding fencelock's lock and rueidislock's. The
// context it gets ends when either is lost.
func withRueidislock(ctx context.Context, locks *fencelock.Client, old rueidislock.Locker, name string, do work) error {
	return locks.Do(ctx, name, func(ctx context.Context, l *fencelock.Lease) error {
		held, release, err := old.WithContext(ctx, name)
		if err != nil {
			return err
		}
		defer release()
		return do(held, l)
	})
}
