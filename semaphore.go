// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"fmt"

	"github.com/fencelock/fencelock/driver"
)

// Semaphore grants leases up to a limit of weight. A permit is a lease: if its process
// dies, the store frees the permit, and unlocking it twice frees it once. The first in the
// queue is served first, however heavy. It is a cheap handle and safe for concurrent use.
type Semaphore struct {
	c     *Client
	name  string
	limit int64
	opts  []LockOption
}

// Semaphore returns a handle for the semaphore of that name. An acquisition of this handle
// succeeds only while the weight held by all processes, its own included, is at most limit.
// A limit that was stored with SetLimit replaces the limit of every handle. Handles with
// different limits, as in processes of an old and a new version, hold together at most the
// greater one. limit is at most 2^53-1. Semaphore does no I/O; a bad name, limit or option
// is reported by the first acquisition.
func (c *Client) Semaphore(name string, limit int64, opts ...LockOption) *Semaphore {
	return &Semaphore{c: c, name: name, limit: limit, opts: opts}
}

// Acquire waits until weight fits into the limit, as [Mutex.Lock] waits, and returns a lease
// of that weight, which the caller must unlock. weight is between 1 and the handle's own
// limit. If a stored limit is below weight, the lease takes all of the stored limit.
func (s *Semaphore) Acquire(ctx context.Context, weight int64) (*Lease, error) {
	h := s.handle(weight)
	return h.acquire(ctx, false)
}

// TryAcquire gets a lease of that weight now or fails with a *BusyError or a *GraceError.
func (s *Semaphore) TryAcquire(ctx context.Context, weight int64) (*Lease, error) {
	h := s.handle(weight)
	return h.acquire(ctx, true)
}

// Do runs fn while holding that weight, as [Mutex.Do] does.
func (s *Semaphore) Do(ctx context.Context, weight int64, fn func(ctx context.Context, l *Lease) error) error {
	h := s.handle(weight)
	return h.do(ctx, fn)
}

// maxWeight is the greatest limit: sums of weights stay exact in every store, as
// 64-bit integers and as the numbers of Lua and JSON.
const maxWeight = 1<<53 - 1

func (s *Semaphore) handle(weight int64) handle {
	if s.limit > maxWeight {
		return handle{c: s.c, name: s.name, err: fmt.Errorf(
			"fencelock: %q: a semaphore's limit is at most %d, not %d", s.name, int64(maxWeight), s.limit)}
	}
	if s.limit < 1 || weight < 1 || weight > s.limit {
		return handle{c: s.c, name: s.name, err: fmt.Errorf(
			"fencelock: %q: weight %d of a semaphore with limit %d: it must be between 1 and the limit", s.name, weight, s.limit)}
	}
	return s.c.handle(s.name, driver.Terms{Mode: driver.Shared, Weight: weight, Limit: s.limit}, s.opts)
}

// SetLimit stores the limit in the store, for all processes, from now on. Raising it lets
// waiters in at once; lowering it takes nothing away from current holders, and new
// acquisitions wait until there is room. 0 removes it, and each process's own limit holds
// again.
func (s *Semaphore) SetLimit(ctx context.Context, limit int64) error {
	if err := checkName(s.name); err != nil {
		return err
	}
	if limit < 0 {
		return fmt.Errorf("fencelock: %q: a limit of %d is below 0", s.name, limit)
	}
	if limit > maxWeight {
		return fmt.Errorf("fencelock: %q: a semaphore's limit is at most %d, not %d", s.name, int64(maxWeight), limit)
	}
	return s.c.ask(ctx, "set limit", s.name, func(ctx context.Context) error { return s.c.store.SetLimit(ctx, s.name, limit) })
}
