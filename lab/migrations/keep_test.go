// SPDX-License-Identifier: Apache-2.0

package migrations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
)

// work is what is done while both locks are held.
type work = func(ctx context.Context, l *fencelock.Lease) error

// keep extends an old lock that does not renew itself, until stop. If that fails, the
// context it returns ends: another client may hold the old lock now.
func keep(ctx context.Context, every time.Duration, extend func(ctx context.Context) error) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-time.After(every):
			case <-ctx.Done():
				return
			}
			call, done := context.WithTimeout(ctx, every)
			err := extend(call)
			done()
			if err != nil {
				cancel(fmt.Errorf("the old lock is lost: %w", err))
			}
		}
	}()
	return ctx, func() { cancel(nil); <-ended }
}

// watch returns a context that ends when an old lock reports that it is lost.
func watch[T any](ctx context.Context, lost <-chan T) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-lost:
			cancel(errors.New("the old lock is lost"))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}
