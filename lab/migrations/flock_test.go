// SPDX-License-Identifier: Apache-2.0

//go:build unix

package migrations

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/fencelock/fencelock"
)

// withFlock does the work while holding fencelock's lock and that of a file on this
// host. The kernel gives the file's lock back if the process dies.
func withFlock(ctx context.Context, locks *fencelock.Client, path, name string, do work) error {
	return locks.Do(ctx, name, func(ctx context.Context, l *fencelock.Lease) error {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		defer file.Close() // gives it back
		for {
			err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
			if err == nil {
				return do(ctx, l)
			}
			if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
				return err
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}
