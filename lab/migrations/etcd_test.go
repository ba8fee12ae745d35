// SPDX-License-Identifier: Apache-2.0

package migrations

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// withEtcd does the work while holding fencelock's lock and that of the recipe. The
// session is the one that the process has already.
func withEtcd(ctx context.Context, locks *fencelock.Client, session *concurrency.Session, name string, do work) error {
	return locks.Do(ctx, name, func(ctx context.Context, l *fencelock.Lease) (err error) {
		old := concurrency.NewMutex(session, "/locks/"+name) // the same prefix as before
		if err := old.Lock(ctx); err != nil {
			return err
		}
		held, stop := watch(ctx, session.Done())
		defer func() {
			stop()
			err = errors.Join(err, old.Unlock(context.WithoutCancel(ctx)))
		}()
		return do(held, l)
	})
}
