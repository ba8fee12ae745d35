// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock/driver"
)

// RWMutex is a lock that either one writer or any number of readers have. In a store with a
// queue ([Guarantees.Fair]) requests are served in order: readers that came before a writer are
// let in together, readers that came after it wait for it, so neither side starves. Readers of
// one process that wait together count as having come with the first of them. A Mutex of the
// same name is its write lock. It is a cheap handle and safe for concurrent use.
type RWMutex struct{ r, w handle }

// RWMutex returns a handle for the lock of that name. It does no I/O; a bad name
// or option is reported by the first acquisition.
func (c *Client) RWMutex(name string, opts ...LockOption) *RWMutex {
	m := &RWMutex{
		r: c.handle(name, driver.Terms{Mode: driver.Shared, Weight: 1}, opts),
		w: c.handle(name, driver.Terms{Mode: driver.Exclusive, Weight: 1}, opts),
	}
	if m.w.err == nil && m.w.config.terms.Linger > 0 {
		m.w.err = m.r.err // a handle that works until its first reader comes would be a trap
	}
	return m
}

// RLock waits for a read lock, as [Mutex.Lock] does for its lock. Under the context of a lease of the same name it re-enters,
// also under that of a writer.
func (m *RWMutex) RLock(ctx context.Context) (*Lease, error) { return m.r.acquire(ctx, false) }

// TryRLock acquires a read lock now or fails with a *BusyError or a *GraceError.
func (m *RWMutex) TryRLock(ctx context.Context) (*Lease, error) { return m.r.acquire(ctx, true) }

// Lock waits for the write lock, as [Mutex.Lock] does. Under the context of a reader of the same name it fails
// with [ErrUpgrade].
func (m *RWMutex) Lock(ctx context.Context) (*Lease, error) { return m.w.acquire(ctx, false) }

// TryLock acquires the write lock now or fails with a *BusyError or a *GraceError.
func (m *RWMutex) TryLock(ctx context.Context) (*Lease, error) { return m.w.acquire(ctx, true) }

// Do runs fn as the writer, as [Mutex.Do] does.
func (m *RWMutex) Do(ctx context.Context, fn func(ctx context.Context, l *Lease) error) error {
	return m.w.do(ctx, fn)
}

// DoRead runs fn as a reader, as [Mutex.Do] does.
func (m *RWMutex) DoRead(ctx context.Context, fn func(ctx context.Context, l *Lease) error) error {
	return m.r.do(ctx, fn)
}

// Downgrade turns a writer's lease into a reader's, without a moment in which
// another writer could come in. The lease keeps its token and must still be unlocked. If
// Downgrade fails, it is not known which of the two the lease is: only read until it is
// unlocked, or call Downgrade again. l must be a lease of this lock and client.
func (m *RWMutex) Downgrade(ctx context.Context, l *Lease) error {
	if m.r.err != nil {
		return m.r.err
	}
	if l == nil {
		return &Error{Op: "downgrade", Name: m.r.name, Server: m.r.c.caps.Engine, Err: errors.New("the lease is nil; lock first")}
	}
	if l.Name() != m.r.name || l.c != m.r.c {
		return &Error{Op: "downgrade", Name: l.Name(), Server: m.r.c.caps.Engine, Err: errors.New("the lease is of another lock or another client")}
	}
	return l.core.Downgrade(ctx, m.r.terms(l.core.Base()))
}
