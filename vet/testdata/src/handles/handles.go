// SPDX-License-Identifier: Apache-2.0

// Package handles locks by handles that were made elsewhere.
package handles

import (
	"context"
	"time"

	"github.com/fencelock/fencelock"
)

var locks *fencelock.Client

type locker interface {
	Lock(ctx context.Context) (*fencelock.Lease, error)
	Current() (*fencelock.Lease, error)
}

type service struct{ mu, pause *fencelock.Mutex }

func newService() *service {
	s := &service{pause: locks.Mutex("b", fencelock.MaxHold(time.Minute))}
	s.mu = locks.Mutex("a")
	return s
}

var short = []fencelock.LockOption{fencelock.MaxHold(time.Minute)}

// Reported.

func ofAnInterface(ctx context.Context, mu locker) error {
	l, err := mu.Lock(ctx) // want `the lease l is not unlocked on every path`
	if err != nil {
		return err
	}
	return l.Err()
}

func (s *service) otherField(ctx context.Context) bool {
	_, err := s.mu.TryLock(ctx) // want `the lease of s.mu.TryLock is dropped`
	return err == nil
}

func otherFieldOfAVariable(ctx context.Context) bool {
	s := &service{mu: locks.Mutex("a"), pause: locks.Mutex("b", fencelock.MaxHold(time.Minute))}
	_, err := s.mu.TryLock(ctx) // want `the lease of s.mu.TryLock is dropped`
	return err == nil
}

// Not reported.

func current(mu locker) error {
	l, err := mu.Current()
	if err != nil {
		return err
	}
	return l.Err()
}

func (s *service) field(ctx context.Context) bool {
	_, err := s.pause.TryLock(ctx)
	return err == nil
}

func options(ctx context.Context) bool {
	_, err := locks.Mutex("a", short...).TryLock(ctx)
	return err == nil
}

func optionsOfASet(ctx context.Context) bool {
	_, err := locks.TryLockAll(ctx, []string{"a"}, short...)
	return err == nil
}
