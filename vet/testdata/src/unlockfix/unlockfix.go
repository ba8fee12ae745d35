// SPDX-License-Identifier: Apache-2.0

// Package unlockfix has unlocks whose error cannot be returned by moving a line.
package unlockfix

import (
	"context"

	"github.com/fencelock/fencelock"
)

var locks *fencelock.Client

func work(ctx context.Context) error { return nil }

func comment(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	_ = work(ctx)
	l.Unlock(ctx) // want `the error of l.Unlock is dropped`
	return nil    // the work is best effort
}

func otherResult(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	release := func() *int {
		l.Unlock(ctx) // want `the error of l.Unlock is dropped`
		return nil
	}
	release()
	return work(ctx)
}

func sameResult(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	_ = work(ctx)
	l.Unlock(ctx) // want `the error of l.Unlock is dropped`
	return nil
}
