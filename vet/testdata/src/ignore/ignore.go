// SPDX-License-Identifier: Apache-2.0

// Package ignore has comments that switch checks off.
package ignore

import (
	"context"

	"github.com/fencelock/fencelock"
)

var locks *fencelock.Client

func save(ctx context.Context) error { return nil }

func above(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		//fencelock:ignore outerctx it is written in any case
		return save(ctx)
	})
}

func beside(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		return save(ctx) //fencelock:ignore leaseleak,outerctx it is written in any case
	})
}

func otherCheck(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		//fencelock:ignore leaseleak it is written in any case
		return save(ctx) // want `ctx does not end`
	})
}

func farAway(ctx context.Context) error {
	//fencelock:ignore outerctx it is written in any case
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		return save(ctx) // want `ctx does not end`
	})
}

func noReason(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		//fencelock:ignore outerctx
		return save(ctx) // want `ctx does not end`
	})
}

func lineBelow(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		_ = save(ctx)    //fencelock:ignore outerctx it is written in any case
		return save(ctx) // want `ctx does not end`
	})
}

func otherComments(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		//fencelock:ignore outerctx it is written in any case
		//nolint:contextcheck // for the same reason
		return save(ctx)
	})
}
