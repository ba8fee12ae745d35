// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
)

// Lease is one acquisition. It is never reused: after Unlock, or after it was
// lost, it stays ended. It is safe for concurrent use.
type Lease struct {
	g     *grant
	token Token
	base  context.Context // of the acquisition: its values, not its end
	since clock.Instant
	state atomic.Uint32
	// Guarded by the shard's mutex.
	next  *Lease // on the same grant
	held  *heldContext
	cause error // why it ended, and what Unlock answers
	inner bool  // re-entered: the outer lease is the one events tell of
}

const (
	leaseHeld uint32 = iota
	leaseReleased
	leaseLost
)

// heldContext is made when somebody asks for it: most leases are never asked.
type heldContext struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Name returns the name of the lock.
func (l *Lease) Name() string { return l.g.claim.Name }

// Owner returns the owner in the holder record of this acquisition, as Inspect
// shows it: Options.Owner.
func (l *Lease) Owner() string { return l.g.s.c.record.Owner }

// Token returns the fencing token of this acquisition. It is greater than the
// token of every acquisition of this name that it could conflict with and that
// was granted before. Between shared leases that overlap the order means
// nothing: readers that are let in together get theirs in any order. On a store
// without fencing it is 0, which every guard refuses.
func (l *Lease) Token() Token { return l.token }

// Deadline returns until when the lease is trusted as things stand. It moves on
// with every renewal, up to the end of a FixedLease or MaxHold. After the lease
// has ended it is in the past.
func (l *Lease) Deadline() time.Time {
	return l.g.s.c.clock.Time(l.deadline())
}

func (l *Lease) deadline() clock.Instant {
	if l.state.Load() != leaseHeld {
		return 0
	}
	end := clock.Instant(l.g.s.deadline.Load())
	if l.g.ends != 0 {
		end = min(end, l.g.ends)
	}
	return end
}

// Valid compares the clock with Deadline at this moment, without a round trip.
// It is advice: the process can be paused right after it. What must not happen
// twice needs the token checked at the resource.
func (l *Lease) Valid() bool { return l.g.s.c.clock.Now() < l.deadline() }

// Err returns nil while the lease is held, ErrReleased after Unlock, and an
// error that wraps ErrLost and the reason after it was lost.
func (l *Lease) Err() error {
	if l.Valid() {
		return nil
	}
	l.g.s.sh.mu.Lock()
	defer l.g.s.sh.mu.Unlock()
	if l.cause != nil {
		return l.cause
	}
	return l.overdue() // the watch is about to say so
}

// overdue says why a lease past its deadline is lost. Wants sh.mu.
func (l *Lease) overdue() error {
	if l.g.s.cause != nil {
		return l.g.s.cause // the session has ended and is about to tell
	}
	if end := l.g.ends; end != 0 && end <= clock.Instant(l.g.s.deadline.Load()) {
		return lost(ErrExpired)
	}
	return lost(ErrUnrenewed)
}

// Context returns a context that carries the lease. It ends, with Err as its
// cause, at the trusted deadline at the latest, whatever call is under way, and
// when the lease is unlocked. It has the values of the context the lease was
// acquired with but not its end. Locking the same name under it re-enters.
func (l *Lease) Context() context.Context {
	l.g.s.sh.mu.Lock()
	defer l.g.s.sh.mu.Unlock()
	if l.held == nil {
		ctx, cancel := context.WithCancelCause(withLease(context.WithoutCancel(l.base), l))
		l.held = &heldContext{ctx, cancel}
		if l.cause != nil {
			cancel(l.cause)
		}
	}
	return l.held.ctx
}

// bind returns a context that ends with ctx as well as with the lease.
func (l *Lease) bind(ctx context.Context) (context.Context, func()) {
	bound, cancel := context.WithCancelCause(withLease(ctx, l))
	held := l.Context()
	stop := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	return bound, func() { stop(); cancel(ErrReleased) }
}

func (l *Lease) cancelContext(cause error) {
	l.g.s.sh.mu.Lock()
	held := l.held
	l.g.s.sh.mu.Unlock()
	if held != nil {
		held.cancel(cause)
	}
}

// LogValue shows the lease in logs as name and token.
func (l *Lease) LogValue() slog.Value {
	return slog.GroupValue(slog.String("lock", l.Name()), slog.Int64("token", int64(l.token)))
}

// emit tells of the lease. Re-entering is no transition: nothing changes hands.
func (l *Lease) emit(kind EventKind, err error) {
	s := l.g.s
	if l.inner || !s.c.watched() {
		return
	}
	if err == ErrReleased {
		err = nil
	}
	s.c.emit(Event{Kind: kind, Shard: s.sh.id, Session: s.id, Name: l.Name(), Token: l.token,
		Took: s.c.clock.Sent().Sub(l.since), Err: err})
}

// Unlock gives the lease back. It works on a context that has ended: giving back
// is bounded by Options.CallTimeout instead. It returns an error that wraps
// ErrLost if the lease had been lost before, and one that wraps ErrUnavailable if
// the store did not confirm; it is then repeated in the background until the
// store does or the session ends, and the lease is over either way. Unlocking
// again returns the same answer.
func (l *Lease) Unlock(ctx context.Context) error { return l.unlock(ctx, 0) }

// unlock gives the lease back; the lock stays taken for keep, by nobody.
func (l *Lease) unlock(ctx context.Context, keep time.Duration) error {
	g := l.g
	g.s.sh.mu.Lock()
	if l.state.Load() != leaseHeld {
		defer g.s.sh.mu.Unlock()
		return l.answer()
	}
	var rest release
	kind, now := LeaseReleased, g.s.c.clock.Recent()
	if now >= l.deadline() {
		kind, l.cause = LeaseLost, l.overdue()
		l.state.Store(leaseLost)
	} else {
		l.cause = ErrReleased
		l.state.Store(leaseReleased)
	}
	cause, held := l.cause, l.held
	if g.dropLease(l); g.leases == nil && kind == LeaseReleased {
		rest = g.release(keep, now)
	}
	g.s.sh.mu.Unlock()
	// Whoever works under the lease's context is told before the next holder
	// is let in.
	if held != nil {
		held.cancel(cause)
	}
	l.emit(kind, cause)
	err := rest.finish(ctx)
	if err == nil && kind == LeaseReleased {
		return nil
	}
	g.s.sh.mu.Lock()
	defer g.s.sh.mu.Unlock()
	if err != nil {
		l.cause = err
	}
	return l.answer()
}

// answer is what Unlock says, each time. Wants sh.mu.
func (l *Lease) answer() error {
	if l.cause == ErrReleased {
		return nil
	}
	return l.cause
}

// dropLease takes a lease off the grant. Wants sh.mu.
func (g *grant) dropLease(l *Lease) {
	for p := &g.leases; *p != nil; p = &(*p).next {
		if *p == l {
			*p = l.next
			l.next = nil
			return
		}
	}
}

// reenter returns a further lease on a grant that ctx already carries.
func reenter(ctx context.Context, c *Client, name string, want *driver.Terms) (*Lease, error) {
	if want.Limit > 0 {
		return nil, nil // a semaphore counts, it does not recognise
	}
	for n := leaseFrom(ctx); n != nil; n = n.outer {
		if l := n.lease; l.g.s.c == c && l.Name() == name {
			if inner, err := l.again(ctx, want); inner != nil || err != nil {
				return inner, err
			}
		}
	}
	return nil, nil
}

// again makes a further lease on the same grant. It returns nil, and no error,
// if the lease was unlocked: an outer one may still be held.
func (l *Lease) again(ctx context.Context, want *driver.Terms) (*Lease, error) {
	l.g.s.sh.mu.Lock()
	defer l.g.s.sh.mu.Unlock()
	c, terms := l.g.s.c, l.g.claim.Terms
	switch {
	case terms.Limit > 0 || l.state.Load() == leaseReleased:
		return nil, nil
	case l.cause != nil:
		return nil, l.cause
	case c.clock.Now() >= l.deadline():
		return nil, l.overdue()
	case terms.Mode == driver.Shared && want.Mode == driver.Exclusive:
		return nil, &Error{Op: "lock", Name: l.Name(), Engine: c.caps.Engine, Err: ErrUpgrade}
	}
	inner := l.g.newLease(ctx, l.token, l.since)
	inner.inner = true
	return inner, nil
}

// newLease puts a lease on the grant. Wants sh.mu.
func (g *grant) newLease(base context.Context, token Token, since clock.Instant) *Lease {
	l := &Lease{g: g, token: token, base: base, since: since, next: g.leases}
	g.leases = l
	return l
}

type leaseKey struct{}

// leaseNode links the leases that a context carries, innermost first.
type leaseNode struct {
	lease *Lease
	outer *leaseNode
}

func withLease(ctx context.Context, l *Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, &leaseNode{l, leaseFrom(ctx)})
}

func leaseFrom(ctx context.Context) *leaseNode {
	n, _ := ctx.Value(leaseKey{}).(*leaseNode)
	return n
}

// FromContext returns the innermost lease of that name that ctx carries, or
// nil. An empty name returns the innermost of all. Guards use it, so that a
// token need not be passed by hand.
func FromContext(ctx context.Context, name string) *Lease {
	for n := leaseFrom(ctx); n != nil; n = n.outer {
		if name == "" || n.lease.Name() == name {
			return n.lease
		}
	}
	return nil
}
