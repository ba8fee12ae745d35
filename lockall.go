// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// LeaseSet is several leases acquired together.
type LeaseSet struct {
	leases []*Lease // in the order of their names
	ctx    context.Context
	cancel context.CancelCauseFunc
	stops  []func() bool
}

// LockAll locks all the names, or none: if one cannot be had, those already held
// are given back. It takes them in the order of their bytes, whatever order they
// are given in, so that two calls never wait for each other. Names given twice
// count once. Holding another lease while calling it can still deadlock, as
// with any nested locking.
func (c *Client) LockAll(ctx context.Context, names []string, opts ...Option) (*LeaseSet, error) {
	return c.lockAll(ctx, names, opts, (*Mutex).Lock)
}

// TryLockAll locks all the names now, or none; the error is a *BusyError about
// the first that was busy.
func (c *Client) TryLockAll(ctx context.Context, names []string, opts ...Option) (*LeaseSet, error) {
	return c.lockAll(ctx, names, opts, (*Mutex).TryLock)
}

func (c *Client) lockAll(ctx context.Context, names []string, opts []Option,
	lock func(*Mutex, context.Context) (*Lease, error)) (*LeaseSet, error) {
	if len(names) == 0 {
		return nil, errors.New("fencelock: LockAll without a name")
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(names)))
	set := &LeaseSet{}
	for _, name := range sorted {
		l, err := lock(c.Mutex(name, opts...), ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("fencelock: lock all: %w", err), set.unlock(ctx))
		}
		set.leases = append(set.leases, l)
	}
	set.watch(ctx)
	return set, nil
}

// watch makes the context that ends with the first lease.
func (s *LeaseSet) watch(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	for _, l := range s.leases {
		ctx = withLease(ctx, l)
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	for _, l := range s.leases {
		held := l.Context()
		s.stops = append(s.stops, context.AfterFunc(held, func() { s.cancel(context.Cause(held)) }))
	}
}

// Context returns a context that carries all the leases and ends as soon as one
// of them does, with its cause.
func (s *LeaseSet) Context() context.Context { return s.ctx }

// Leases returns the leases in the order of their names.
func (s *LeaseSet) Leases() []*Lease { return slices.Clone(s.leases) }

// Lease returns the lease of that name, or nil.
func (s *LeaseSet) Lease(name string) *Lease {
	for _, l := range s.leases {
		if l.Name() == name {
			return l
		}
	}
	return nil
}

// Valid compares the clock with the deadlines of all leases at this moment; see
// Lease.Valid.
func (s *LeaseSet) Valid() bool {
	return !slices.ContainsFunc(s.leases, func(l *Lease) bool { return !l.Valid() })
}

// Unlock gives all leases back, on a context that has ended too. It joins the
// errors of those that were lost or could not be confirmed.
func (s *LeaseSet) Unlock(ctx context.Context) error {
	for _, stop := range s.stops {
		stop()
	}
	s.cancel(ErrReleased)
	return s.unlock(ctx)
}

// unlock goes backwards: the first name is where others wait.
func (s *LeaseSet) unlock(ctx context.Context) error {
	var errs []error
	for _, l := range slices.Backward(s.leases) {
		errs = append(errs, l.Unlock(ctx))
	}
	return errors.Join(errs...)
}
