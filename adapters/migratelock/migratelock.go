// SPDX-License-Identifier: Apache-2.0

// Package migratelock lets one replica at a time run the migrations of golang-migrate v4.
// Several of its drivers lock inside the process only: ClickHouse, Cassandra, Snowflake,
// Redshift, Spanner, Firebird, rqlite and SQLite.
//
// First consider [Run]. It holds the lock around the whole call, and if the lock is lost it
// stops migrate before its next migration:
//
//	err := migratelock.Run(ctx, client, "migrate/orders", m.GracefulStop, m.Up)
//
// A Driver is for programs in which other code creates the Migrate:
//
//	driver, err := migratelock.New(inner, client, "migrate/orders", database.ErrLocked, nil)
//	m, err := migrate.NewWithInstance("source", source, "clickhouse", driver)
//
// # Failures
//
//   - The process dies in the middle of a migration: the lock is free after the client's
//     TTL, and migrate finds the version dirty, as without a lock.
//   - The lock is lost: Run stops between two migrations and returns an error that wraps
//     fencelock.ErrLost. A Driver refuses to begin the next migration.
//   - The lock is busy for longer than Options.Timeout: Lock returns ErrLocked. It must be
//     shorter than Migrate.LockTimeout, because migrate stops to wait then, but its call of
//     Lock goes on, and what it acquires is not unlocked.
//   - Two replicas start on an empty database: the constructor of a driver creates the table
//     of versions, before it is locked, and one of two constructors may fail. With Do around
//     the constructor and Up this cannot happen.
//
// golang-migrate is not imported: the type parameter is its type database.Driver.
package migratelock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/internal/held"
)

// Run calls migrate, such as Migrate.Up, under the lock of that name, and waits for it as
// long as ctx allows. stop is Migrate.GracefulStop: if the lock is lost or ctx ends, migrate
// is asked to stop before the next migration, and Run returns an error. Use a new Migrate
// after that: one that was asked to stop stays so.
func Run(ctx context.Context, c *fencelock.Client, name string, stop chan<- bool, migrate func() error) error {
	return c.Mutex(name, fencelock.Reason("migration")).Do(ctx, func(ctx context.Context, _ *fencelock.Lease) error {
		defer context.AfterFunc(ctx, func() {
			select {
			case stop <- true:
			default: // it was asked before, or does not listen
			}
		})()
		err := migrate()
		if err == nil && ctx.Err() != nil {
			return context.Cause(ctx) // migrate stops without an error
		}
		return err
	})
}

// DefaultTimeout is how long Driver.Lock waits. It is less than migrate's own 15 s.
const DefaultTimeout = 10 * time.Second

// Options are the settings of a Driver.
type Options struct {
	// Timeout is how long Lock waits for the lock; DefaultTimeout if it is 0. It must be
	// less than Migrate.LockTimeout.
	Timeout time.Duration
}

// Inner is database.Driver. D is database.Driver, too: Open returns one.
type Inner[D any] interface {
	Open(url string) (D, error)
	Close() error
	Lock() error
	Unlock() error
	Run(migration io.Reader) error
	SetVersion(version int, dirty bool) error
	Version() (version int, dirty bool, err error)
	Drop() error
}

// Driver is a database.Driver: the inner one, with the lock of a name around its own.
type Driver[D Inner[D]] struct {
	Inner[D]
	client *fencelock.Client
	name   string
	locked error // database.ErrLocked
	opts   Options

	mu      sync.Mutex
	locking bool // Lock is under way
	lease   *fencelock.Lease
}

// New puts the lock of that name before a driver. errLocked is database.ErrLocked, which Lock
// returns for a lock that is held. opts may be nil. New fails if D is not database.Driver.
func New[D Inner[D]](inner D, c *fencelock.Client, name string, errLocked error, opts *Options) (*Driver[D], error) {
	d := &Driver[D]{Inner: inner, client: c, name: name, locked: errLocked}
	if opts != nil {
		d.opts = *opts
	}
	if d.opts.Timeout == 0 {
		d.opts.Timeout = DefaultTimeout
	}
	if d.opts.Timeout < 0 {
		return nil, fmt.Errorf("migratelock: Options.Timeout is %v; it must be positive", d.opts.Timeout)
	}
	if errLocked == nil {
		return nil, errors.New("migratelock: the error for a lock that is held is nil; pass database.ErrLocked")
	}
	if _, ok := any(d).(D); !ok {
		return nil, errors.New("migratelock: the type parameter of New is not database.Driver; write New[database.Driver]")
	}
	return d, nil
}

// Open opens the inner driver at a URL and puts the same lock before it.
func (d *Driver[D]) Open(url string) (D, error) {
	var none D
	inner, err := d.Inner.Open(url)
	if err != nil {
		return none, err
	}
	opened, err := New(inner, d.client, d.name, d.locked, &d.opts)
	if err != nil {
		return none, errors.Join(err, inner.Close())
	}
	return any(opened).(D), nil
}

// Lock waits for the lock, and then locks the inner driver. If that takes longer than
// Options.Timeout, it unlocks both: migrate may no longer wait for them.
func (d *Driver[D]) Lock() error {
	d.mu.Lock()
	if d.lease != nil || d.locking {
		d.mu.Unlock()
		return d.locked
	}
	d.locking = true
	d.mu.Unlock()
	l, err := d.lock()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.locking, d.lease = false, l
	return err
}

func (d *Driver[D]) lock() (*fencelock.Lease, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d.opts.Timeout)
	defer cancel()
	l, err := d.client.Mutex(d.name, fencelock.Reason("migration")).Lock(ctx)
	switch {
	case err != nil && ctx.Err() != nil && !errors.Is(err, fencelock.ErrUnavailable):
		return nil, fmt.Errorf("%w: %w", d.locked, err)
	case err != nil:
		return nil, err
	}
	err = d.Inner.Lock()
	if err == nil && ctx.Err() != nil {
		err = errors.Join(d.locked, d.Inner.Unlock())
	}
	if err != nil {
		return nil, errors.Join(err, held.Confirmed(l.Unlock(context.Background())))
	}
	return l, nil
}

// Unlock unlocks the inner driver, and gives the lock back. Its error wraps
// fencelock.ErrLost if the lock was lost before.
func (d *Driver[D]) Unlock() error {
	err := d.Inner.Unlock()
	d.mu.Lock()
	l := d.lease
	d.lease = nil
	d.mu.Unlock()
	return errors.Join(err, held.Confirmed(l.Unlock(context.Background())))
}

// Run runs a migration, unless the lock was lost.
func (d *Driver[D]) Run(migration io.Reader) error {
	if err := d.lost(); err != nil {
		return err
	}
	return d.Inner.Run(migration)
}

// SetVersion records a version. If the lock was lost it begins no migration, but it records
// one that was applied: no other process migrates while the version is dirty.
func (d *Driver[D]) SetVersion(version int, dirty bool) error {
	if err := d.lost(); err != nil && dirty {
		return err
	}
	return d.Inner.SetVersion(version, dirty)
}

// Drop deletes everything, unless the lock was lost.
func (d *Driver[D]) Drop() error {
	if err := d.lost(); err != nil {
		return err
	}
	return d.Inner.Drop()
}

// Close closes the inner driver, and gives the lock back if it is held.
func (d *Driver[D]) Close() error {
	d.mu.Lock()
	l := d.lease
	d.lease = nil
	d.mu.Unlock()
	return errors.Join(d.Inner.Close(), held.Confirmed(l.Unlock(context.Background())))
}

// lost returns why the lock was lost. migrate also calls a driver that it has not locked.
func (d *Driver[D]) lost() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lease == nil {
		return nil
	}
	return d.lease.Err()
}
