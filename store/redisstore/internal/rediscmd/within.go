// SPDX-License-Identifier: Apache-2.0

package rediscmd

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/fencelock/fencelock/driver"
)

// Ended returns an error if ctx has ended, before anything was sent.
func Ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("redisstore: %w", err)
	}
	return nil
}

// Within runs fn and returns when ctx ends even if fn does not: no client library
// ends every wait with its context (a dialer of the caller's, a read in a
// connection used alone). What fn was doing is then unknown.
func Within[T any](ctx context.Context, fn func() (T, error)) (T, error) {
	if ctx.Done() == nil {
		return fn()
	}
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := fn()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var zero T
		return zero, fmt.Errorf("redisstore: %w: %w", driver.ErrUnknown, ctx.Err())
	}
}

// maxAbandoned is how many calls without a caller may be on their way. A healthy server answers so many within
// milliseconds.
const maxAbandoned = 64

// Abandoned bounds the calls whose callers have gone, where a client library sends all calls through one queue and ends
// none of them with its context. Without a bound callers with short contexts send calls faster than the server answers
// them: each one that gives up asks again, and withdraws its claim. The keep-alives stand behind all of these, come too late, and the process
// loses its leases although the server is well. So a call is not sent while too many without a caller are
// on their way.
type Abandoned struct {
	n     atomic.Int64
	mu    sync.Mutex
	fewer chan struct{} // closed when one of them has ended; nil if nobody waits
}

// BoundedWithin is Within that waits until few calls without a caller are on their way. If ctx ends before that,
// nothing was sent.
func BoundedWithin[T any](ctx context.Context, a *Abandoned, fn func() (T, error)) (v T, err error) {
	if err := a.wait(ctx); err != nil {
		return v, Unavailable(err)
	}
	var settled atomic.Bool // whichever comes first: fn has ended, or its caller has gone
	v, err = Within(ctx, func() (T, error) {
		v, err := fn()
		if !settled.CompareAndSwap(false, true) {
			a.end()
		}
		return v, err
	})
	if ctx.Err() != nil {
		a.n.Add(1) // first: fn may end in between
		if !settled.CompareAndSwap(false, true) {
			a.end()
		}
	}
	return v, err
}

// wait waits until few calls without a caller are on their way.
func (a *Abandoned) wait(ctx context.Context) error {
	for a.n.Load() >= maxAbandoned {
		a.mu.Lock()
		if a.fewer == nil {
			a.fewer = make(chan struct{})
		}
		fewer := a.fewer
		a.mu.Unlock()
		if a.n.Load() < maxAbandoned {
			return nil
		}
		select {
		case <-fewer:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// end notes that a call without a caller has ended.
func (a *Abandoned) end() {
	a.n.Add(-1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fewer != nil {
		close(a.fewer)
		a.fewer = nil
	}
}
