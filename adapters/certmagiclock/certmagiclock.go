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
//     called, and the next attempt of certmagic acquires it again, or fails if another
//     replica has it. What an attempt stores until then is not fenced: certmagic passes no token to Store. Two
//     orders for one name are then possible; both are valid certificates.
//   - certmagic may hold a lock for days while it retries. That costs nothing: one heartbeat
//     renews all locks of a process.
//
// certmagic is not imported: the type parameter is its type KeyInfo.
package certmagiclock

import (
	"context"
	"errors"
	"fmt"
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

// Lock waits for the lock of a name until ctx ends, and also for a store that does not
// answer. The lock is held until Unlock.
func (k *Locker) Lock(ctx context.Context, name string) error {
	for {
		l, err := k.mutex(name).Lock(ctx)
		switch {
		case err == nil:
			k.leases.Add(name, l)
			return nil
		case !errors.Is(err, fencelock.ErrUnavailable):
			return err
		}
		// certmagic does not repeat an obtain that fails here.
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return err
		}
	}
}

// TryLock acquires the lock of a name, or reports false if it is held or the store
// grants no new locks for now.
func (k *Locker) TryLock(ctx context.Context, name string) (bool, error) {
	l, err := k.mutex(name).TryLock(ctx)
	if errors.Is(err, fencelock.ErrBusy) || errors.Is(err, fencelock.ErrGrace) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	k.leases.Add(name, l)
	return true, nil
}

// Unlock gives the lock of a name back. A loss is no error here, because certmagic would
// keep the lock in its list; OnLost has reported it.
func (k *Locker) Unlock(ctx context.Context, name string) error {
	if err := k.leases.Unlock(ctx, name); !errors.Is(err, fencelock.ErrLost) {
		return err
	}
	return nil
}

// RenewLockLease is called before each attempt. A lock that was lost is acquired again; if
// another process has it, RenewLockLease fails, and certmagic's attempt does, too. The
// duration is not used: a lock is renewed until Unlock.
func (k *Locker) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	return k.leases.Renew(ctx, name, func() (*fencelock.Lease, error) { return k.mutex(name).TryLock(ctx) })
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

// String returns the text of the inner storage. certmagic logs its storage: without a text
// it would log the fields, which may be secrets.
func (s *Storage[K]) String() string {
	inner := s.Inner.(only[K]).Inner
	if text, ok := inner.(fmt.Stringer); ok {
		return text.String()
	}
	return fmt.Sprintf("%T with locks of fencelock", inner)
}

// only hides the methods of an inner storage that are not in Inner: its Lock would be as
// deep as that of Locker, and neither would be promoted.
type only[K any] struct{ Inner[K] }
