// SPDX-License-Identifier: Apache-2.0

// Package certmagiclock gives any storage of certmagic, and so of Caddy, locks that expire
// with their process and that are notified of a loss.
//
//	storage := certmagiclock.New[certmagic.KeyInfo](s3, client, nil)
//	certmagic.Default.Storage = storage
//
// certmagic locks the name of a certificate while it obtains it, so that one replica orders
// it and the others load it. A storage on an object store or a network file system often has
// a lock that does nothing, or one that stays after a crash.
//
//	replica 1  Lock ─ order at the CA ─ Store ─ Unlock
//	replica 2  Lock ─────── waits ─────────────┴─ Load: it is there
//
// # Failures
//
//   - A replica dies in the middle of an order: its lock is free after the client's TTL, and
//     the next replica orders.
//   - A lock is lost (the store did not answer for a TTL, an operator broke it): OnLost is
//     called, and the next attempt of certmagic fails, because RenewLockLease does. What
//     an attempt stores until then is not fenced: certmagic passes no token to Store. Two
//     orders for one name are then possible; both are valid certificates.
//   - certmagic may hold a lock for days while it retries. That costs nothing: one heartbeat
//     renews all locks of a process.
//
// certmagic is not imported: the type parameter is its type KeyInfo.
package certmagiclock

import (
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/internal/held"
)

// Options are the settings of a Locker.
type Options struct {
	// Prefix is what names of locks begin with; "certmagic/" if it is empty.
	Prefix string
	// OnLost is called if a lock is lost while certmagic works under it; err wraps
	// fencelock.ErrLost. Without it, a loss is logged.
	OnLost func(name string, err error)
}

// Locker is certmagic's Locker, TryLocker and LockLeaseRenewer.
type Locker struct {
	client *fencelock.Client
	leases *held.Leases
}

// NewLocker returns the locks alone, for a storage of your own. opts may be nil.
func NewLocker(c *fencelock.Client, opts *Options) *Locker {
	if opts == nil {
		opts = &Options{}
	}
	prefix := opts.Prefix
	if prefix == "" {
		prefix = "certmagic/"
	}
	return &Locker{client: c, leases: held.New(prefix, opts.OnLost)}
}

func (k *Locker) mutex(name string) *fencelock.Mutex {
	return k.client.Mutex(k.leases.Lock(name), fencelock.Reason("certmagic"))
}

// Lock waits for the lock of a name, until ctx ends. The lock is held until Unlock.
func (k *Locker) Lock(ctx context.Context, name string) error {
	l, err := k.mutex(name).Lock(ctx)
	if err != nil {
		return err
	}
	k.leases.Add(name, l)
	return nil
}

// TryLock acquires the lock of a name, or reports false if it is held.
func (k *Locker) TryLock(ctx context.Context, name string) (bool, error) {
	l, err := k.mutex(name).TryLock(ctx)
	if errors.Is(err, fencelock.ErrBusy) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	k.leases.Add(name, l)
	return true, nil
}

// Unlock gives the lock of a name back. Its error wraps fencelock.ErrLost if the lock was
// lost before.
func (k *Locker) Unlock(ctx context.Context, name string) error { return k.leases.Unlock(ctx, name) }

// RenewLockLease fails if the lock was lost, so that certmagic's attempt fails, too. The
// duration is not used: a lock is renewed until Unlock.
func (k *Locker) RenewLockLease(_ context.Context, name string, _ time.Duration) error {
	return k.leases.Err(name)
}

// Inner is what a certmagic.Storage does apart from locking. K is certmagic.KeyInfo.
type Inner[K any] interface {
	Store(ctx context.Context, key string, value []byte) error
	Load(ctx context.Context, key string) ([]byte, error)
	Delete(ctx context.Context, key string) error
	Exists(ctx context.Context, key string) bool
	List(ctx context.Context, path string, recursive bool) ([]string, error)
	Stat(ctx context.Context, key string) (K, error)
}

// Storage is a certmagic.Storage: the inner one with the locks of Locker.
type Storage[K any] struct {
	Inner[K]
	*Locker
}

// New puts locks before a storage; a lock that inner has is not used. opts may be nil.
func New[K any](inner Inner[K], c *fencelock.Client, opts *Options) *Storage[K] {
	return &Storage[K]{Inner: only[K]{inner}, Locker: NewLocker(c, opts)}
}

// only hides the methods of an inner storage that are not in Inner: its Lock would be as
// deep as that of Locker, and neither would be promoted.
type only[K any] struct{ Inner[K] }
