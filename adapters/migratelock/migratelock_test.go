// SPDX-License-Identifier: Apache-2.0

package migratelock_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/migratelock"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// driver is database.Driver.
type driver interface {
	Open(url string) (driver, error)
	Close() error
	Lock() error
	Unlock() error
	Run(migration io.Reader) error
	SetVersion(version int, dirty bool) error
	Version() (version int, dirty bool, err error)
	Drop() error
}

var errLocked = errors.New("can't acquire lock")

// database is a driver that locks inside the process only.
type database struct {
	locked, closed bool
	ran, versions  int
	dropped        bool
	slow           time.Duration // of Lock
	refuses        error
}

func (d *database) Open(string) (driver, error) { return &database{}, nil }
func (d *database) Close() error                { d.closed = true; return nil }
func (d *database) Unlock() error               { d.locked = false; return nil }
func (d *database) Run(io.Reader) error         { d.ran++; return nil }
func (d *database) SetVersion(int, bool) error  { d.versions++; return nil }
func (d *database) Version() (int, bool, error) { return d.versions, false, nil }
func (d *database) Drop() error                 { d.dropped = true; return nil }
func (d *database) Lock() error {
	time.Sleep(d.slow)
	if d.refuses != nil {
		return d.refuses
	}
	d.locked = true
	return nil
}

func wrapped(t *testing.T, c *fencelock.Client, inner driver) *migratelock.Driver[driver] {
	t.Helper()
	d, err := migratelock.New(inner, c, "migrate", errLocked, nil)
	must.OK(t, err)
	return d
}

// TestDriverLocks: the lock is that of all replicas, a second Lock fails as migrate demands,
// and one that gives up leaves nothing behind.
func TestDriverLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		inner := &database{}
		a, b := wrapped(t, locktest.Client(t, store, nil), inner), wrapped(t, locktest.Client(t, store, nil), &database{})
		if err := a.Lock(); err != nil || !inner.locked {
			t.Fatalf("%v, inner locked %v", err, inner.locked)
		}
		locktest.Is(t, a.Lock(), errLocked)
		began := time.Now()
		locktest.Is(t, b.Lock(), errLocked)
		if waited := time.Since(began); waited != migratelock.DefaultTimeout {
			t.Errorf("waited %v", waited)
		}
		if err := errors.Join(a.Run(strings.NewReader("")), a.SetVersion(1, false), a.Unlock()); err != nil || inner.locked || inner.ran != 1 || inner.versions != 1 {
			t.Errorf("%v, %+v", err, inner)
		}
		opened, err := b.Open("url")
		must.OK(t, err)
		must.OK(t, opened.Lock())
		locktest.Is(t, b.Lock(), errLocked) // the same lock
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
		locktest.Free(t, store, "migrate") // Close gave it back
		inner.refuses = errors.New("no")
		locktest.Is(t, a.Lock(), inner.refuses)
		locktest.Free(t, store, "migrate")
		if err := a.Run(strings.NewReader("")); err != nil { // migrate runs without a lock, too
			t.Error(err)
		}
	})
}

// TestDriverLocksNothingTooLate: a lock that comes when migrate no longer waits is given back,
// and the driver can be closed while it waits.
func TestDriverLocksNothingTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		inner := &database{slow: migratelock.DefaultTimeout + time.Second}
		d := wrapped(t, locktest.Client(t, store, nil), inner)
		lock := locktest.Go(locktest.Err(d.Lock))
		time.Sleep(time.Second)
		locktest.Is(t, d.Lock(), errLocked)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		_, err := lock.Wait()
		locktest.Is(t, err, errLocked)
		if inner.locked {
			t.Error("the inner driver is locked")
		}
		locktest.Free(t, store, "migrate")
	})
}

// TestDriverStopsAfterALoss: no migration begins then; one that was applied is recorded.
func TestDriverStopsAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &database{}
		d := wrapped(t, locktest.Client(t, locktest.Faulty(t, memstore.New(nil), `on(keepalive, nth(2, cut(1m)))`), nil), inner)
		must.OK(t, d.Lock())
		time.Sleep(30 * time.Second)
		for _, err := range []error{d.Run(strings.NewReader("")), d.SetVersion(1, true), d.Drop()} {
			locktest.Is(t, err, fencelock.ErrLost)
		}
		if err := d.SetVersion(1, false); err != nil {
			t.Errorf("a migration that was applied cannot be recorded: %v", err)
		}
		locktest.Is(t, d.Unlock(), fencelock.ErrLost)
		if inner.ran != 0 || inner.versions != 1 || inner.dropped || inner.locked {
			t.Errorf("%+v", inner)
		}
	})
}

// TestNewRefuses: bad settings are errors.
func TestNewRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.Client(t, memstore.New(nil), nil)
		_, err := migratelock.New[driver](&database{}, c, "migrate", nil, nil)
		if err == nil || !strings.Contains(err.Error(), "pass database.ErrLocked") {
			t.Error(err)
		}
		_, err = migratelock.New[driver](&database{}, c, "migrate", errLocked, &migratelock.Options{Timeout: -1})
		if err == nil || !strings.Contains(err.Error(), "must be positive") {
			t.Error(err)
		}
	})
}

// TestRunStopsBetweenMigrations: a loss asks migrate to stop, and is returned.
func TestRunStopsBetweenMigrations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.Client(t, locktest.Faulty(t, memstore.New(nil), `on(keepalive, nth(2, cut(1m)))`), nil)
		stop := make(chan bool, 1)
		done := 0
		err := migratelock.Run(t.Context(), c, "migrate", stop, func() error {
			for {
				select {
				case <-stop:
					return nil
				default:
					done++
					time.Sleep(time.Second)
				}
			}
		})
		locktest.Is(t, err, fencelock.ErrLost)
		if done < 5 || done > 20 {
			t.Errorf("%d migrations of a second until the second renewal of a TTL of 15 s failed", done)
		}
		time.Sleep(2 * time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		err = migratelock.Run(ctx, c, "migrate", make(chan bool, 1), func() error { cancel(); return nil })
		locktest.Is(t, err, context.Canceled)
		if err := migratelock.Run(t.Context(), c, "migrate", stop, func() error { return nil }); err != nil || len(stop) != 0 {
			t.Errorf("%v, and asked to stop %d times", err, len(stop))
		}
	})
}
