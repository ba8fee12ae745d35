// SPDX-License-Identifier: Apache-2.0

// Package afterloss uses the outer context where the inner one has ended.
package afterloss

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock"
)

var locks *fencelock.Client

func work(ctx context.Context) error              { return nil }
func report(ctx context.Context, err error) error { return err }

// Reported.

func before(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		if held.Err() == nil {
			_ = work(ctx) // want `ctx does not end`
		}
		if l.Valid() {
			_ = work(ctx) // want `ctx does not end`
		}
		if err := work(held); err != nil {
			_ = work(ctx) // want `ctx does not end`
		}
		select {
		case <-held.Done():
		default:
			_ = work(ctx) // want `ctx does not end`
		}
		return nil
	})
}

func inAVariable(ctx context.Context) error {
	var fn func(context.Context, *fencelock.Lease) error = func(held context.Context, l *fencelock.Lease) error {
		return work(ctx) // want `ctx does not end`
	}
	return locks.Do(ctx, "a", fn)
}

func shadowed(ctx context.Context) error {
	return locks.Do(ctx, "a", func(_ context.Context, _ *fencelock.Lease) error {
		ctx := context.WithValue(ctx, "key", 1) // want `ctx does not end`
		return work(ctx)
	})
}

// Not reported.

func branch(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		err := work(held)
		if held.Err() != nil {
			_ = report(ctx, context.Cause(held))
		}
		if l.Err() != nil || !l.Valid() {
			_ = report(ctx, l.Err())
		}
		if errors.Is(context.Cause(held), fencelock.ErrLost) {
			_ = report(ctx, err)
		}
		switch {
		case errors.Is(err, fencelock.ErrLost):
			_ = report(ctx, err)
		}
		return err
	})
}

func wait(ctx context.Context) error {
	return locks.Election("a").Run(ctx, func(term context.Context, l *fencelock.Lease) error {
		go work(term)
		<-term.Done()
		return report(ctx, context.Cause(term))
	})
}

func choose(ctx context.Context, jobs <-chan int) error {
	return locks.Election("a").Run(ctx, func(term context.Context, l *fencelock.Lease) error {
		for {
			select {
			case <-term.Done():
				return report(ctx, context.Cause(term))
			case <-jobs:
				_ = work(term)
			}
		}
	})
}
