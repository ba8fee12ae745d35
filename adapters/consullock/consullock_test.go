// SPDX-License-Identifier: Apache-2.0

package consullock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/consullock"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// The shapes that other libraries ask for.
var (
	_ interface { // Consul's api.Lock, and Vault's physical.Lock
		Lock(stop <-chan struct{}) (<-chan struct{}, error)
		Unlock() error
		Value() (bool, string, error)
	} = (*consullock.Lock)(nil)
	_ interface { // valkeyrie's store.Locker
		Lock(ctx context.Context) (<-chan struct{}, error)
		Unlock(ctx context.Context) error
	} = (*consullock.ContextLock)(nil)
)

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestLockLikeConsul: errors, a wait that is stopped, the value of the holder.
func TestLockLikeConsul(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		a := consullock.New(locktest.Client(t, store, nil), "leader", "10.0.0.7:80")
		b := consullock.New(locktest.Client(t, store, nil), "leader", "")
		locktest.Is(t, a.Unlock(), consullock.ErrLockNotHeld)
		if held, value, err := b.Value(); held || value != "" || err != nil {
			t.Errorf("a free lock: %v, %q, %v", held, value, err)
		}
		lost, err := a.Lock(nil)
		if err != nil || closed(lost) || a.Lease() == nil {
			t.Fatalf("%v, lost %v, lease %v", err, closed(lost), a.Lease())
		}
		_, err = a.Lock(nil)
		locktest.Is(t, err, consullock.ErrLockHeld)
		if held, value, err := b.Value(); !held || value != "10.0.0.7:80" || err != nil {
			t.Errorf("a held lock: %v, %q, %v", held, value, err)
		}
		stop := make(chan struct{})
		time.AfterFunc(time.Minute, func() { close(stop) })
		if c, err := b.Lock(stop); c != nil || err != nil {
			t.Errorf("a wait that was stopped: %v, %v", c, err)
		}
		if err := a.Unlock(); err != nil || !closed(lost) || a.Lease() != nil {
			t.Errorf("unlock: %v, closed %v, lease %v", err, closed(lost), a.Lease())
		}
		locktest.Free(t, store, "leader")
	})
}

// TestLossClosesTheChannel: before another process can acquire the lock.
func TestLossClosesTheChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		a := consullock.NewContext(locktest.Client(t, locktest.Faulty(t, store, `on(keepalive, nth(2, cut(1m)))`), nil), "leader", "a")
		b := consullock.NewContext(locktest.Client(t, store, nil), "leader", "b")
		lost, err := a.Lock(t.Context())
		must.OK(t, err)
		if _, err := b.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !closed(lost) || a.Lease() != nil {
			t.Errorf("another process holds the lock: the channel is closed %v, the lease %v", closed(lost), a.Lease())
		}
		locktest.Is(t, a.Unlock(t.Context()), fencelock.ErrLost)
		if err := b.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestOneAcquisitionAtATime: a second Lock while the first waits is refused: both would
// be the same value's.
func TestOneAcquisitionAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
		l := locktest.Got(t)(c.Mutex("leader").Lock(t.Context()))
		a := consullock.NewContext(c, "leader", "")
		waits := locktest.Go(func() (<-chan struct{}, error) { return a.Lock(t.Context()) })
		synctest.Wait()
		_, err := a.Lock(t.Context())
		locktest.Is(t, err, consullock.ErrLockHeld)
		locktest.Unlock(t, l)
		if _, err := waits.Wait(); err != nil {
			t.Error(err)
		}
		if err := a.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestLockThatIsOnlyKeptHasNoHolder: a MinHold outlives its holder.
func TestLockThatIsOnlyKeptHasNoHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.Client(t, memstore.New(nil), nil)
		locktest.Unlock(t, locktest.Got(t)(c.Mutex("leader", fencelock.MinHold(time.Minute)).Lock(t.Context())))
		if held, value, err := consullock.New(c, "leader", "").Value(); held || value != "" || err != nil {
			t.Errorf("a lock that is kept and not held: %v, %q, %v", held, value, err)
		}
	})
}
