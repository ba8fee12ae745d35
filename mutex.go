// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"

	"github.com/fencelock/fencelock/driver"
)

// Mutex is a lock that one holder has at a time. It is a cheap handle without
// state: make it where it is needed, as often as needed.
type Mutex struct{ h handle }

// Mutex returns a handle for the lock of that name. It does no I/O; a bad name
// or option is reported by the first acquisition.
func (c *Client) Mutex(name string, opts ...Option) *Mutex {
	return &Mutex{c.handle(name, driver.Terms{Mode: driver.Exclusive, Weight: 1}, opts)}
}

// Lock waits for its turn and returns a lease. ctx bounds the waiting only: the
// lease does not end with it. Turns are given in the order of asking, within
// the client and, if Guarantees says so, between processes. If Lock fails,
// nothing is left behind that outlives the session.
//
// Under the context of a lease of the same name it re-enters: the same token,
// no round trip, and the lock is free when both are unlocked.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) { return m.h.acquire(ctx, false) }

// TryLock asks once and does not wait for a holder: if there is one, the error is
// a *BusyError that names it, and errors.Is(err, ErrBusy) holds.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) { return m.h.acquire(ctx, true) }
