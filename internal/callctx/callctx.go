// SPDX-License-Identifier: Apache-2.0

// Package callctx makes the contexts of calls to a store. Each ends after the call
// timeout, with the caller's context, and with what the call belongs to, whichever is
// first.
//
// Callers that cannot cancel share a context while they begin at about the same time: a
// context and a timer for every call would cost 1 µs, a sixth of a lock and its unlock in
// memory for each of the two calls. Contexts for callers that can cancel were shared too,
// with a table of callers seen before. On Redis, where a lock and its unlock cost the
// client 35 to 70 µs of processor time, no run showed a difference, and the table went.
package callctx

import (
	"context"
	"sync/atomic"
	"time"
)

// Maker makes the contexts of the calls that belong to one parent. A context that is
// shared ends up to an eighth of the timeout sooner.
type Maker struct {
	parent  context.Context
	timeout time.Duration
	last    atomic.Pointer[span]
}

// New returns a Maker for calls that end with the parent and after the timeout.
func New(parent context.Context, timeout time.Duration) *Maker {
	return &Maker{parent: parent, timeout: timeout}
}

// span is a context for the calls that begin before a moment. It ends by itself.
type span struct {
	context.Context
	before time.Time
}

// Context returns the context of one call for a caller, and what to call when the call
// is over.
func (m *Maker) Context(caller context.Context) (context.Context, func()) {
	if caller.Done() == nil {
		return shared{m.span(), caller}, func() {}
	}
	call, cancel := context.WithTimeout(caller, m.timeout)
	if m.parent.Done() == nil {
		return call, cancel
	}
	stop := context.AfterFunc(m.parent, cancel)
	return call, func() { stop(); cancel() }
}

func (m *Maker) span() *span {
	now := time.Now()
	s := m.last.Load()
	if s == nil || !now.Before(s.before) {
		ctx, cancel := context.WithDeadline(m.parent, now.Add(m.timeout))
		context.AfterFunc(ctx, cancel) // calls that share it are not counted: only its deadline ends it
		s = &span{ctx, now.Add(m.timeout / 8)}
		m.last.Store(s) // of two at once one is not shared, no harm
	}
	return s
}

// shared is a span with the values of a caller.
type shared struct {
	*span
	caller context.Context
}

// Value implements context.Context. The span is asked first: package context finds
// there what it needs to cancel without a goroutine. It has no other values.
func (s shared) Value(key any) any {
	if v := s.span.Value(key); v != nil {
		return v
	}
	return s.caller.Value(key)
}

// EndsAtDeadline marks a context that no caller can cancel: it ends at its deadline, unless what
// the call belongs to ends before. A store may then do without a goroutine that waits for the
// end. A context made from this one has no such mark: it may be canceled. Stores in other
// modules know the mark by the name of this method.
func (shared) EndsAtDeadline() {}
