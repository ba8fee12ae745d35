// SPDX-License-Identifier: Apache-2.0

package migrations

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock"
)

// consulLock is the part of *api.Lock, of Consul's client, that is needed.
type consulLock interface {
	Lock(stop <-chan struct{}) (lost <-chan struct{}, err error)
	Unlock() error
}

// withConsul does the work while holding fencelock's lock and Consul's. Make old with
// LockOpts for each call: after a loss it cannot be used again.
func withConsul(ctx context.Context, locks *fencelock.Client, old consulLock, name string, do work) error {
	return locks.Do(ctx, name, func(ctx context.Context, l *fencelock.Lease) (err error) {
		lost, err := old.Lock(ctx.Done())
		if err != nil {
			return err
		}
		if lost == nil {
			return context.Cause(ctx) // it was stopped while it waited
		}
		held, stop := watch(ctx, lost)
		defer func() {
			stop()
			err = errors.Join(err, old.Unlock())
		}()
		return do(held, l)
	})
}
