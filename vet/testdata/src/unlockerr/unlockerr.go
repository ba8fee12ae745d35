// SPDX-License-Identifier: Apache-2.0

package unlockerr

import (
	"context"
	"errors"
	"log"

	"github.com/fencelock/fencelock"
)

var locks *fencelock.Client

var errStale = errors.New("stale")

func work(ctx context.Context) error                    { return nil }
func save(ctx context.Context, t fencelock.Token) error { return nil }
func done() bool                                        { return false }

// Reported.

func deferred(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx) // want `the error of l.Unlock is dropped: if the lease was lost, the function returns as if it had not been`
	return work(ctx)
}

func statement(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		l.Unlock(ctx)
		return err
	}
	l.Unlock(ctx) // want `the error of l.Unlock is dropped`
	return nil
}

func inAClosure(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	defer func() {
		l.Unlock(ctx) // want `the error of l.Unlock is dropped`
	}()
	return work(ctx)
}

func set(ctx context.Context) (int, error) {
	all, err := locks.LockAll(ctx, []string{"a", "b"})
	if err != nil {
		return 0, err
	}
	defer all.Unlock(ctx) // want `the error of all.Unlock is dropped`
	return 1, work(ctx)
}

func resultOfWork(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	err = work(ctx)
	l.Unlock(ctx) // want `the error of l.Unlock is dropped`
	return err
}

// Not reported.

func returned(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	return errors.Join(work(ctx), l.Unlock(ctx))
}

func joined(ctx context.Context) (err error) {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Unlock(ctx)) }()
	return work(ctx)
}

func logged(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err := l.Unlock(ctx); err != nil {
			log.Println(err)
		}
	}()
	return work(ctx)
}

func meant(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = l.Unlock(ctx) }()
	return work(ctx)
}

func withContext(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx) // a loss ends the work
	return work(l.Context())
}

func withToken(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx) // a guard rejects the work
	return save(ctx, l.Token())
}

func looked(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	return errors.Join(work(ctx), l.Err())
}

func failing(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	if done() {
		l.Unlock(ctx)
		return errStale
	}
	if err := work(ctx); err != nil {
		l.Unlock(ctx)
		return err
	}
	return l.Unlock(ctx)
}

func noError(ctx context.Context) {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return
	}
	defer l.Unlock(ctx)
	_ = work(ctx)
}

func withoutIt(ctx context.Context) error {
	l, err := locks.Mutex("a").TryLock(ctx)
	if err != nil {
		log.Println(err)
	}
	if l != nil {
		defer l.Unlock(ctx)
	}
	return work(ctx) // with the lock or without it
}

func onlyAsks(ctx context.Context) error {
	l, err := locks.Mutex("a").TryLock(ctx)
	if err == nil {
		l.Unlock(ctx) // nothing was done under the lock
	}
	return err
}

func goroutine(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	go func() {
		defer l.Unlock(ctx) // leasectx reports that
		_ = work(ctx)
	}()
	return nil
}
