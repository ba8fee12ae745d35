// SPDX-License-Identifier: Apache-2.0

// Package devices sends firmware to devices.
package devices

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/fencelock/fencelock"
)

type Fleet struct {
	locks  *fencelock.Client
	update *fencelock.RWMutex
	ctx    context.Context
}

func (f *Fleet) send(ctx context.Context, device string, part int) error { return nil }
func (f *Fleet) reboot(ctx context.Context, device string)               {}
func (f *Fleet) rollbackDevice(ctx context.Context, device string) error { return nil }

// Update stops in the middle and keeps the lock.
func (f *Fleet) Update(ctx context.Context, device string, parts int) (err error) {
	lease, err := f.locks.Mutex("devices/"+device, fencelock.Reason("firmware")).Lock(ctx) // misuse: leaseleak
	if err != nil {
		return
	}
	for i := 0; i < parts; i++ {
		if err = f.send(lease.Context(), device, i); err != nil {
			return
		}
	}
	return lease.Unlock(ctx)
}

// Watch reads with the field that Do was given.
func (f *Fleet) Watch() error {
	return f.update.DoRead(f.ctx, func(ctx context.Context, l *fencelock.Lease) error {
		for part := 0; ; part++ {
			if err := f.send(f.ctx, "all", part); err != nil { // misuse: outerctx
				return err
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Second):
			}
		}
	})
}

// Upgrade writes under its own read lock.
func (f *Fleet) Upgrade(ctx context.Context) error {
	return f.update.DoRead(ctx, func(read context.Context, _ *fencelock.Lease) error {
		return f.update.Do(ctx, func(ctx context.Context, _ *fencelock.Lease) error { // misuse: selflock
			return f.send(ctx, "all", 0)
		})
	})
}

// Reboot drops the lease of a function value.
func (f *Fleet) Reboot(ctx context.Context, device string, wait bool) error {
	mu := f.locks.Mutex("devices/" + device)
	acquire := mu.TryLock
	if wait {
		acquire = mu.Lock
	}
	lease, err := acquire(ctx) // misuse: leaseleak
	if err != nil {
		return err
	}
	if !lease.Valid() {
		return errors.New("lost at once")
	}
	f.reboot(lease.Context(), device)
	return lease.Unlock(ctx)
}

// Reset calls a function without results with the outer context.
func (f *Fleet) Reset(ctx context.Context, device string) error {
	return f.locks.Do(ctx, "devices/"+device, func(c context.Context, l *fencelock.Lease) error {
		f.reboot(ctx, device) // misuse: outerctx
		return c.Err()
	})
}

// Try is right: it rolls back with a context that outlives the lock.
func (f *Fleet) Try(ctx context.Context, device string) error {
	return f.locks.Do(ctx, "devices/"+device, func(held context.Context, l *fencelock.Lease) error {
		if err := f.send(held, device, 0); err != nil {
			log.Print(err)
			return f.rollbackDevice(context.WithoutCancel(ctx), device)
		}
		return nil
	})
}
