// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// bound makes the contexts of calls, each of which ends after the call timeout. Calls
// that begin at about the same time share one if they end with the same caller's
// context, or if no caller can end them: a context and a timer for every call would
// cost as much as the rest of what the core does for it. A shared one ends up to an
// eighth sooner.
type bound struct {
	parent  context.Context
	timeout time.Duration
	last    atomic.Pointer[span] // of callers that cannot cancel

	mu    sync.Mutex
	seats map[<-chan struct{}]*seat // of callers that can, by their Done
	swept time.Time
}

// span is a context for the calls that begin before a moment. It ends by itself.
type span struct {
	context.Context
	cancel context.CancelFunc
	before time.Time
}

// seat is for a caller's context that was seen lately.
type seat struct {
	calls int
	span  *span // nil until it has come often enough, and when it is over
}

const (
	// maxSeats is how many callers' contexts are known at a time.
	maxSeats = 1024
	// regular is how many calls make a caller one that comes again and again. A
	// context of its own for a request that locks once is no dearer than a shared one.
	regular = 4
)

// context returns the context of one call for a caller, and what to call when it is
// over.
func (b *bound) context(caller context.Context) (context.Context, func()) {
	if caller.Done() == nil {
		return lent{b.span(), caller}, func() {}
	}
	if s := b.regular(caller); s != nil {
		return lent{s, caller}, func() {}
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
		s = b.newSpan(b.parent, now)
		b.last.Store(s) // of two at a time one is not shared, no harm
	}
	return s
}

func (b *bound) newSpan(parent context.Context, now time.Time) *span {
	ctx, cancel := context.WithDeadline(parent, now.Add(b.timeout))
	return &span{ctx, cancel, now.Add(b.timeout / 8)}
}

// regular returns the span of a caller that comes again and again, nil for others.
func (b *bound) regular(caller context.Context) *span {
	done, now := caller.Done(), time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.seats[done]
	if at == nil {
		if b.room(now) {
			b.seats[done] = &seat{calls: 1}
		}
		return nil
	}
	if at.calls++; at.calls < regular {
		return nil
	}
	if !at.used(now) {
		s := b.newSpan(endOf{caller}, now)
		stop := context.AfterFunc(b.parent, s.cancel)
		context.AfterFunc(s, func() { stop(); b.vacate(at, s) })
		at.span = s
	}
	return at.span
}

// used says whether calls share the span that is there.
func (at *seat) used(now time.Time) bool {
	return at.span != nil && now.Before(at.span.before) && at.span.Err() == nil
}

// room says whether there is a seat for one more. Who came once, or has stayed away,
// makes room for others; nobody looks for such a one more often than spans change.
func (b *bound) room(now time.Time) bool {
	if b.seats == nil {
		b.seats = map[<-chan struct{}]*seat{}
	}
	if len(b.seats) < maxSeats {
		return true
	}
	if now.Sub(b.swept) < b.timeout/8 {
		return false
	}
	b.swept = now
	maps.DeleteFunc(b.seats, func(_ <-chan struct{}, at *seat) bool { return !at.used(now) })
	return len(b.seats) < maxSeats
}

// vacate forgets a span that has ended, and with it the caller's context.
func (b *bound) vacate(at *seat, s *span) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at.span == s {
		at.span = nil
	}
}

// endOf is a caller's context without its values: contexts with other values may end
// with the same Done, and a trace must not get the calls of another.
type endOf struct{ context.Context }

// Value implements context.Context.
func (endOf) Value(any) any { return nil }

// AfterFunc is for package context, which would start a goroutine without it.
func (e endOf) AfterFunc(f func()) func() bool { return context.AfterFunc(e.Context, f) }

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
