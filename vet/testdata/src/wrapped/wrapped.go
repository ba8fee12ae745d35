// SPDX-License-Identifier: Apache-2.0

// Package wrapped uses fencelock through a wrapper alone.
package wrapped

import (
	"context"

	"wrapper"
)

func leak(ctx context.Context) error {
	l, err := wrapper.LockOrder(ctx, "1") // want `the lease l is not unlocked on every path`
	if err != nil {
		return err
	}
	return l.Err()
}

func fine(ctx context.Context) error {
	l, err := wrapper.LockOrder(ctx, "1")
	if err != nil {
		return err
	}
	return l.Unlock(ctx)
}

func notOurs() error {
	l, err := wrapper.Current("1")
	if err != nil {
		return err
	}
	return l.Err()
}
