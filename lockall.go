// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/fencelock/fencelock/internal/core"
)

// maxUnlocks bounds the unlocks of a set in flight.
const maxUnlocks = 32

// LeaseSet is several leases acquired together. It is safe for concurrent use.
type LeaseSet struct {
	leases []*Lease // in the order of their names
	ctx    context.Context
	cancel context.CancelCauseFunc
	stops  []func() bool
}

// LockAll locks all the names, or none: if one cannot be locked, or one is lost while
// it waits for another, those already held are given back, and the error is that of
// [Mutex.Lock] or wraps [ErrLost]. The caller must unlock the set. LockAll locks the names in
// the order of their bytes, whatever order they are given in, so that two calls never wait
// for each other. Names given twice count once. Holding another lease while calling LockAll
// can still deadlock, as with any nested locking.
func (c *Client) LockAll(ctx context.Context, names []string, opts ...LockOption) (*LeaseSet, error) {
	return c.lockAll(ctx, names, opts, (*Mutex).Lock)
}

// TryLockAll locks all the names now, or none; the error is a *BusyError about
// the first that was busy, or a *GraceError.
func (c *Client) TryLockAll(ctx context.Context, names []string, opts ...LockOption) (*LeaseSet, error) {
	return c.lockAll(ctx, names, opts, (*Mutex).TryLock)
}

func (c *Client) lockAll(ctx context.Context, names []string, opts []LockOption,
	lock func(*Mutex, context.Context) (*Lease, error)) (*LeaseSet, error) {
	if len(names) == 0 {
		return nil, errors.New("fencelock: lock all: no names were given")
	}
	set, returned := &LeaseSet{}, false
	defer func() {
		for _, l := range set.leases {
			if !returned { // a hook or the store panicked
				l.core.Abandon()
			}
		}
	}()
	sorted := slices.Compact(slices.Sorted(slices.Values(names)))
	err := set.fill(ctx, sorted, func(ctx context.Context, name string) (*Lease, error) {
		return lock(c.Mutex(name, opts...), ctx)
	})
	returned = true
	if err != nil {
		return nil, set.abandon(ctx, &lockAllError{err})
	}
	set.watch(ctx)
	return set, nil
}

// fill locks the names in turn, and returns when all are held or with the first error.
func (s *LeaseSet) fill(ctx context.Context, names []string, lock func(ctx context.Context, name string) (*Lease, error)) error {
	// The wait for a name ends with the first lease that is lost.
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	for _, name := range names {
		l, err := lock(waiting, name)
		if err == nil {
			s.leases = append(s.leases, l)
			defer context.AfterFunc(l.Context(), stop)()
		}
		// To ask every lease after every name would take time that grows with the square of
		// their number.
		if err != nil || waiting.Err() != nil {
			if err := cmp.Or(s.lost(), err); err != nil {
				return err
			}
		}
	}
	return s.lost() // a deadline may have passed that the context does not show yet
}

// lost returns the loss of a lease of the set, nil if all are held.
func (s *LeaseSet) lost() error {
	for _, l := range s.leases {
		if err := l.Err(); err != nil {
			return &Error{Op: "lock", Name: l.Name(), Server: l.c.caps.Engine, Err: err,
				Hint: "it was lost while the other names were waited for"}
		}
	}
	return nil
}

// watch makes the context that ends with the first lease.
func (s *LeaseSet) watch(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	for _, l := range s.leases {
		ctx = core.WithLease(ctx, &l.core)
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
// [Lease.Valid].
func (s *LeaseSet) Valid() bool {
	return !slices.ContainsFunc(s.leases, func(l *Lease) bool { return !l.Valid() })
}

// Unlock gives all leases back, on a context that has ended too. It joins the
// errors of those that were lost or could not be confirmed. Unlocking again returns the
// same answers. On a nil set Unlock does nothing.
func (s *LeaseSet) Unlock(ctx context.Context) error {
	if s == nil {
		return nil
	}
	for _, stop := range s.stops {
		stop()
	}
	s.cancel(ErrReleased)
	return s.unlock(ctx, nil)
}

// unlock gives the leases back, several at once: a store that does not answer
// must not cost CallTimeout for each. It begins with the last, because others
// wait for the first. It returns err joined with the errors that are new. A panic
// of a hook or the store goes on in the caller, after the others are given back:
// no caller could recover from it on another goroutine.
func (s *LeaseSet) unlock(ctx context.Context, err error) error {
	left := make(chan int, len(s.leases))
	for i := range slices.Backward(s.leases) {
		left <- i
	}
	close(left)
	errs := make([]error, len(s.leases))
	var mu sync.Mutex
	var wg sync.WaitGroup
	var panicked any
	one := func(i int) {
		defer func() {
			if p := recover(); p != nil {
				mu.Lock()
				panicked = p
				mu.Unlock()
			}
		}()
		errs[i] = s.leases[i].Unlock(ctx)
	}
	for range min(len(s.leases), maxUnlocks) {
		wg.Go(func() {
			for i := range left {
				one(i)
			}
		})
	}
	wg.Wait()
	if panicked != nil {
		panic(panicked)
	}
	return joinedAll(err, errs)
}

// abandon gives the leases back and returns err when they are, or when ctx has
// ended: the rest is then done in the background. A panic there is the caller's if
// it still waits; it never ends the process.
func (s *LeaseSet) abandon(ctx context.Context, err error) error {
	done := make(chan func() error, 1)
	unlock := func() {
		defer func() {
			if p := recover(); p != nil {
				done <- func() error { panic(p) }
			}
		}()
		err := s.unlock(ctx, err)
		done <- func() error { return err }
	}
	if len(s.leases) == 0 || !s.leases[0].c.core.Background(unlock) {
		return err // nothing to give back, or Close has
	}
	select {
	case answer := <-done:
		return answer()
	case <-ctx.Done():
		return err
	}
}
