// SPDX-License-Identifier: Apache-2.0

// Package linedirective has the lines of another file.
package linedirective

import (
	"context"

	"github.com/fencelock/fencelock"
)

var locks *fencelock.Client

func work(ctx context.Context) error { return nil }

//line linedirective.go:1000
func statement(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	_ = work(ctx)
	l.Unlock(ctx) // want `the error of l.Unlock is dropped`
	return nil
}
