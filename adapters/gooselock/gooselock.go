// SPDX-License-Identifier: Apache-2.0

// Package gooselock lets one replica at a time run the migrations of goose v3, on databases
// for which goose has no lock.
//
// First consider [fencelock.Client.Do], which is one line and stops the migration when the
// lock is lost:
//
//	err := client.Do(ctx, "migrate/orders", func(ctx context.Context, _ *fencelock.Lease) error {
//		_, err := provider.Up(ctx)
//		return err
//	})
//
// This package is for programs in which other code calls the provider:
//
//	provider, err := goose.NewProvider(dialect, db, migrations,
//		goose.WithLocker(gooselock.New(client, "migrate/orders", nil)))
//
// # Failures
//
//   - The process dies in the middle of a migration: the lock is free after the client's
//     TTL. What the migration left behind is goose's matter, as without a lock.
//   - The lock is lost during a migration: OnLost is called, and the migration goes on. Use
//     Do, or a database that rolls a migration back.
//
// goose is not imported: its interfaces have types of the standard library only.
package gooselock

import (
	"context"
	"database/sql"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/internal/held"
)

// Options are the settings of a Locker.
type Options struct {
	// OnLost is called if the lock is lost during a migration; err wraps fencelock.ErrLost.
	// Without it, a loss is logged.
	OnLost func(name string, err error)
}

// Locker is goose's lock.Locker and lock.SessionLocker. Both wait for the lock; the database
// that they are given is not used.
type Locker struct {
	mutex  *fencelock.Mutex
	name   string
	leases *held.Leases
}

// New returns a Locker with the lock of that name. opts may be nil.
func New(c *fencelock.Client, name string, opts *Options) *Locker {
	if opts == nil {
		opts = &Options{}
	}
	return &Locker{mutex: c.Mutex(name, fencelock.Reason("goose migration")), name: name, leases: held.New("", opts.OnLost)}
}

// Lock waits for the lock, until ctx ends.
func (k *Locker) Lock(ctx context.Context, _ *sql.DB) error { return k.lock(ctx) }

// Unlock gives the lock back.
func (k *Locker) Unlock(ctx context.Context, _ *sql.DB) error { return k.leases.Unlock(ctx, k.name) }

// SessionLock is Lock.
func (k *Locker) SessionLock(ctx context.Context, _ *sql.Conn) error { return k.lock(ctx) }

// SessionUnlock is Unlock.
func (k *Locker) SessionUnlock(ctx context.Context, _ *sql.Conn) error {
	return k.leases.Unlock(ctx, k.name)
}

func (k *Locker) lock(ctx context.Context) error {
	l, err := k.mutex.Lock(ctx)
	if err != nil {
		return err
	}
	k.leases.Add(k.name, l)
	return nil
}
