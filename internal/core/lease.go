// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
)

// Lease is the state of one lease. The API's lease holds it.
type Lease struct {
	// Public is the lease of the API.
	Public any

	g     *grant
	token driver.Token
	base  context.Context // of the acquisition: its values, not its end
	since clock.Instant
	state leaseState
	// carried is set if there are contexts that carry the lease.
	carried atomic.Bool
	// Guarded by the shard's mutex.
	prev, next *Lease // on the same grant
	held       *heldContext
	cause      error         // why it ended, and what Unlock returns
	waiting    chan struct{} // closed when Unlock is answered; made by a second Unlock
	inner      bool          // re-entered: events are about the outer lease
	announced  bool          // the event of its beginning is out
}

// leaseState is how far a lease is. It is written with the shard's mutex held, and
// read without.
//
//	held ──▶ lost
//	  │
//	  ├────▶ released                  other leases stand on its grant, or it is handed off
//	  └────▶ releasing ──▶ released    its grant is given back to the store
type leaseState struct{ v atomic.Uint32 }

const (
	leaseHeld uint32 = iota
	leaseReleased
	// leaseReleasing: Unlock waits for the store's answer.
	leaseReleasing
	leaseLost
)

func (s *leaseState) get() uint32   { return s.v.Load() }
func (s *leaseState) set(to uint32) { s.v.Store(to) }

// heldContext is made by the first call of Context: most leases have none.
type heldContext struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Name returns the name of the lock.
func (l *Lease) Name() string { return l.g.claim.Name }

// Owner returns the owner in the holder record.
func (l *Lease) Owner() string { return l.g.claim.Terms.Record.Owner }

// Token returns the token of the lease.
func (l *Lease) Token() driver.Token { return l.token }

// Base returns the context of the acquisition.
func (l *Lease) Base() context.Context { return l.base }

// Deadline returns until when the lease is trusted as things stand.
func (l *Lease) Deadline() time.Time { return l.g.s.c.clock.Time(l.deadline()) }

func (l *Lease) deadline() clock.Instant {
	if l.state.get() != leaseHeld {
		return 0
	}
	end := clock.Instant(l.g.s.deadline.Load())
	if l.g.fixedEnd != 0 {
		end = min(end, l.g.fixedEnd)
	}
	return end
}

// Valid compares the clock with the deadline.
func (l *Lease) Valid() bool { return l.g.s.c.clock.Now() < l.deadline() }

// Err returns nil while the lease is held, and then why it ended.
func (l *Lease) Err() error {
	if l.Valid() {
		return nil
	}
	l.g.s.sh.mu.Lock()
	defer l.g.s.sh.mu.Unlock()
	if l.cause != nil {
		return l.cause
	}
	return l.overdueLocked() // the watch is about to notify
}

// overdueLocked returns why a lease past its deadline is lost. sh.mu must be held.
func (l *Lease) overdueLocked() error {
	if l.g.s.cause != nil {
		return l.g.s.cause // the session has ended and is about to notify
	}
	if end := l.g.fixedEnd; end != 0 && end <= clock.Instant(l.g.s.deadline.Load()) {
		return lost(ErrExpired)
	}
	return lost(ErrUnrenewed)
}

// Context returns a context that carries the lease and ends with it.
func (l *Lease) Context() context.Context {
	l.g.s.sh.mu.Lock()
	defer l.g.s.sh.mu.Unlock()
	if l.held == nil {
		ctx, cancel := context.WithCancelCause(WithLease(context.WithoutCancel(l.base), l))
		l.held = &heldContext{ctx, cancel}
		if l.cause != nil {
			cancel(l.cause)
		}
	}
	return l.held.ctx
}

func (l *Lease) cancelContext(cause error) {
	l.g.s.sh.mu.Lock()
	held := l.held
	l.g.s.sh.mu.Unlock()
	if held != nil {
		held.cancel(cause)
	}
}

// announce emits the event of the lease's beginning, before its caller has it: no
// event of its end can come first. If the lease was lost in between, it adds that.
// waited is 0 if it is not known.
func (l *Lease) announce(kind EventKind, waited time.Duration) {
	s := l.g.s
	if !s.c.watched() {
		return
	}
	defer func() { // even when the hook panics: it has seen the beginning
		s.sh.mu.Lock()
		l.announced = true
		lost, cause := l.state.get() == leaseLost, l.cause
		s.sh.mu.Unlock()
		if lost {
			l.emit(LeaseLost, cause)
		}
	}()
	s.c.emit(Event{Kind: kind, Shard: s.sh.id, Session: s.id, Name: l.Name(), Token: l.token, Waited: waited})
}

// announceAfterPanic announces a lease that was handed off, unless it was announced before: a
// hook panicked, perhaps about this very lease, and its waiter gets it all the same.
func (l *Lease) announceAfterPanic() {
	l.g.s.sh.mu.Lock()
	announced := l.announced
	l.g.s.sh.mu.Unlock()
	if !announced {
		guarded(func() { l.announce(LeaseHandedOff, 0) })
	}
}

// guarded calls hooks on a goroutine that panics already. If they panic again, the first
// panic goes on, and what is left to do is done.
func guarded(hooks func()) {
	defer func() { _ = recover() }()
	hooks()
}

// emit reports a transition of the lease. Re-entering is not a transition.
func (l *Lease) emit(kind EventKind, err error) {
	s := l.g.s
	if l.inner || !s.c.watched() {
		return
	}
	if err == ErrReleased {
		err = nil
	}
	s.c.emit(Event{Kind: kind, Shard: s.sh.id, Session: s.id, Name: l.Name(), Token: l.token,
		Held: s.c.clock.Sent().Sub(l.since), Err: err})
}

// reenter returns a further lease on a grant that ctx already carries.
func reenter(ctx context.Context, c *Client, name string, want *driver.Terms, how How) (*Lease, error) {
	if want.Limit > 0 {
		return nil, nil // a semaphore counts, it does not recognize its holders
	}
	for l := range Leases(ctx) {
		if l.g.s.c == c && l.Name() == name {
			if inner, err := l.again(ctx, want, how); inner != nil || err != nil {
				return inner, err
			}
		}
	}
	return nil, nil
}

// again makes a further lease on the same grant. It returns nil, and no error,
// if the lease was unlocked: an outer one may still be held.
func (l *Lease) again(ctx context.Context, want *driver.Terms, how How) (*Lease, error) {
	l.g.s.sh.mu.Lock()
	defer l.g.s.sh.mu.Unlock()
	c, terms := l.g.s.c, l.g.claim.Terms
	switch {
	case terms.Limit > 0 || l.unlocked():
		return nil, nil
	case l.cause != nil:
		return nil, l.cause
	case c.clock.Now() >= l.deadline():
		return nil, l.overdueLocked()
	case terms.Mode == driver.Shared && want.Mode == driver.Exclusive:
		return nil, c.fail(Failure{Op: how.Op(), Name: l.Name(), Err: ErrUpgrade})
	}
	inner := l.g.newLeaseLocked(ctx, l.token, l.since)
	inner.inner = true
	return inner, nil
}

// unlocked reports whether the lease ended by Unlock.
func (l *Lease) unlocked() bool {
	st := l.state.get()
	return st == leaseReleased || st == leaseReleasing
}

// newLeaseLocked puts a lease on the grant. sh.mu must be held.
func (g *grant) newLeaseLocked(base context.Context, token driver.Token, since clock.Instant) *Lease {
	l := g.s.c.opts.NewLease()
	l.g, l.token, l.base, l.since, l.next = g, token, base, since, g.leases
	if l.next != nil {
		l.next.prev = l
	}
	g.leases = l
	return l
}

type leaseKey struct{}

// leaseNode links the leases that a context carries, innermost first.
type leaseNode struct {
	lease *Lease
	outer *leaseNode
}

// WithLease returns a context that carries the lease and those of ctx.
func WithLease(ctx context.Context, l *Lease) context.Context {
	l.carried.Store(true)
	return context.WithValue(ctx, leaseKey{}, &leaseNode{l, leaseFrom(ctx)})
}

// Leases returns the leases that ctx carries, innermost first.
func Leases(ctx context.Context) iter.Seq[*Lease] {
	return func(yield func(*Lease) bool) {
		for n := leaseFrom(ctx); n != nil; n = n.outer {
			if !yield(n.lease) {
				return
			}
		}
	}
}

func leaseFrom(ctx context.Context) *leaseNode {
	n, _ := ctx.Value(leaseKey{}).(*leaseNode)
	return n
}
