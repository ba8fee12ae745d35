// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"sync/atomic"
	"time"
)

// bound makes the contexts of calls, each of which ends after the call timeout. Calls
// that begin at about the same time, for callers that cannot cancel, share one: a
// timer for every call would cost as much as the rest of what the core does for it.
// A shared one ends up to an eighth sooner.
type bound struct {
	parent  context.Context
	timeout time.Duration
	last    atomic.Pointer[span]
}

// span is a context for the calls that begin before a moment. It ends by itself.
type span struct {
	context.Context
	cancel context.CancelFunc
	before time.Time
}

// context returns the context of one call for a caller, and what to call when it is
// over.
func (b *bound) context(caller context.Context) (context.Context, func()) {
	if caller.Done() == nil {
		return lent{b.span(), caller}, func() {}
	}
	call, cancel := context.WithTimeout(caller, b.timeout)
	if b.parent.Done() == nil {
		return call, cancel
	}
	stop := context.AfterFunc(b.parent, cancel)
	return call, func() { stop(); cancel() }
}

func (b *bound) span() *span {
	now := time.Now()
	s := b.last.Load()
	if s == nil || !now.Before(s.before) {
		s = &span{before: now.Add(b.timeout / 8)}
		s.Context, s.cancel = context.WithDeadline(b.parent, now.Add(b.timeout))
		b.last.Store(s) // of two at a time one is not shared, no harm
	}
	return s
}

// lent is a span with the values of a caller.
type lent struct {
	*span
	caller context.Context
}

// Value implements context.Context. The span is asked first: package context looks
// there for what it needs to cancel without a goroutine. It has no values else.
func (l lent) Value(key any) any {
	if v := l.span.Value(key); v != nil {
		return v
	}
	return l.caller.Value(key)
}
