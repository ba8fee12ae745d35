// SPDX-License-Identifier: Apache-2.0

package gooselock_test

import (
	"context"
	"database/sql"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/gooselock"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// locker is goose's lock.Locker and lock.SessionLocker.
type locker interface {
	Lock(ctx context.Context, db *sql.DB) error
	Unlock(ctx context.Context, db *sql.DB) error
	SessionLock(ctx context.Context, conn *sql.Conn) error
	SessionUnlock(ctx context.Context, conn *sql.Conn) error
}

// TestOneReplicaMigrates: the others wait, whichever of the two interfaces they use.
func TestOneReplicaMigrates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		replica := func() locker { return gooselock.New(locktest.Client(t, store, nil), "migrate", nil) }
		a, b := replica(), replica()
		must.OK(t, a.Lock(t.Context(), nil))
		waits := locktest.Go(locktest.Err(func() error { return b.SessionLock(t.Context(), nil) }))
		time.Sleep(time.Hour)
		waits.Waits(t, "while the first migrates")
		ended, cancel := context.WithCancel(t.Context())
		cancel() // goose's suite unlocks with one
		if err := a.Unlock(ended, nil); err != nil {
			t.Error(err)
		}
		if _, err := waits.Wait(); err != nil {
			t.Error(err)
		}
		if err := b.SessionUnlock(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if b.Unlock(t.Context(), nil) == nil {
			t.Error("unlocked what is not locked")
		}
		locktest.Free(t, store, "migrate")
	})
}

// TestLossIsReported: a migration cannot be stopped, so the loss is reported.
func TestLossIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost error
		k := gooselock.New(locktest.Client(t, locktest.Faulty(t, memstore.New(nil), `on(keepalive, nth(2, cut(1m)))`), nil), "migrate",
			&gooselock.Options{OnLost: func(_ string, err error) { lost = err }})
		must.OK(t, k.Lock(t.Context(), nil))
		time.Sleep(30 * time.Second)
		synctest.Wait()
		locktest.Is(t, lost, fencelock.ErrLost)
		locktest.Is(t, k.Unlock(t.Context(), nil), fencelock.ErrLost)
	})
}
