// SPDX-License-Identifier: Apache-2.0

// Package consullock has locks with the methods of other libraries, for code that is written
// against an interface of that shape: Lock of Consul's api.Lock, with Vault's Value, and
// ContextLock of valkeyrie's store.Locker.
//
//	lock := consullock.New(client, "service/leader", "10.0.0.7:8080") // was: consul.LockKey(…)
//	lost, err := lock.Lock(stop)
//	…
//	select {
//	case <-lost: // another process may acquire the lock now
//	case <-done:
//	}
//
// New code uses [fencelock.Client.Do] instead: the work's context ends with the lock, and
// the token protects what is written. Here the channel is all that there is. It is closed
// [fencelock.Options.Margin] before another process can acquire the lock, as the context
// would be.
//
// A lock is used once at a time: Lock on a locked value is an error, as in Consul.
package consullock

import (
	"context"
	"errors"
	"sync"

	"github.com/fencelock/fencelock"
)

// Errors with the meaning of those in Consul's API.
var (
	// ErrLockHeld is returned by Lock if this value holds the lock.
	ErrLockHeld = errors.New("consullock: this lock is held already; unlock it first, or use another one")
	// ErrLockNotHeld is returned by Unlock if this value does not hold the lock.
	ErrLockNotHeld = errors.New("consullock: this lock is not held; lock it first")
)

// ContextLock has the methods of valkeyrie's store.Locker. It is safe for concurrent use.
type ContextLock struct {
	client *fencelock.Client
	name   string
	value  string

	mu    sync.Mutex
	lease *fencelock.Lease
	busy  bool // an acquisition is under way
}

// NewContext returns a lock. value is shown in the holder record, as the value of Consul's
// key would be: usually an address.
func NewContext(c *fencelock.Client, name, value string) *ContextLock {
	return &ContextLock{client: c, name: name, value: value}
}

// Lock waits for the lock until ctx ends. The channel is closed when the lock is lost or
// unlocked.
func (k *ContextLock) Lock(ctx context.Context) (<-chan struct{}, error) {
	k.mu.Lock()
	if k.lease != nil || k.busy {
		k.mu.Unlock()
		return nil, ErrLockHeld
	}
	k.busy = true
	k.mu.Unlock()
	l, err := k.client.Mutex(k.name, k.options()...).Lock(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy = false
	if err != nil {
		return nil, err
	}
	k.lease = l
	return l.Context().Done(), nil
}

func (k *ContextLock) options() []fencelock.LockOption {
	if k.value == "" {
		return nil
	}
	return []fencelock.LockOption{fencelock.Label(valueLabel, k.value)}
}

// valueLabel is the label that has the value of a lock.
const valueLabel = "value"

// Unlock gives the lock back. Its error wraps fencelock.ErrLost if the lock was lost before.
func (k *ContextLock) Unlock(ctx context.Context) error {
	k.mu.Lock()
	l := k.lease
	k.lease = nil
	k.mu.Unlock()
	if l == nil {
		return ErrLockNotHeld
	}
	return l.Unlock(ctx)
}

// Lease returns the lease while the lock is held, and nil otherwise: its token protects
// what is written.
func (k *ContextLock) Lease() *fencelock.Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lease == nil || k.lease.Err() != nil {
		return nil
	}
	return k.lease
}

// Value reports whether a process holds the lock, and the value of the one that does.
func (k *ContextLock) Value(ctx context.Context) (held bool, value string, err error) {
	st, err := k.client.Inspect(ctx, k.name)
	if err != nil || len(st.Holders) == 0 || st.Holders[0].Kept {
		return false, "", err
	}
	return true, st.Holders[0].Record.Labels[valueLabel], nil
}

// Lock has the methods of Consul's api.Lock and of Vault's physical.Lock.
type Lock struct{ inner *ContextLock }

// New returns a lock with a value, as NewContext does.
func New(c *fencelock.Client, name, value string) *Lock { return &Lock{NewContext(c, name, value)} }

// Lock waits for the lock until stop is closed, and returns nil without an error then. The
// channel is closed when the lock is lost or unlocked.
func (k *Lock) Lock(stop <-chan struct{}) (<-chan struct{}, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-stop:
			cancel()
		case <-over:
		}
	}()
	lost, err := k.inner.Lock(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, nil
	}
	return lost, err
}

// Unlock gives the lock back, and returns ErrLockNotHeld if it is not held here.
func (k *Lock) Unlock() error { return k.inner.Unlock(context.Background()) }

// Lease returns the lease while the lock is held, and nil otherwise.
func (k *Lock) Lease() *fencelock.Lease { return k.inner.Lease() }

// Value reports whether a process holds the lock, and the value of the one that does.
func (k *Lock) Value() (held bool, value string, err error) {
	return k.inner.Value(context.Background())
}
