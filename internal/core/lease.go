// SPDX-License-Identifier: Apache-2.0

package core

import (
	"container/heap"
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
		return l.g.s.c.lost(MaxHoldReached)
	}
	return l.g.s.c.lost(Unrenewed)
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

// maxLingering bounds the idle grants of a session: a scan over many names must not keep
// all of them.
const maxLingering = 1024

// mayLingerLocked reports whether the grant stays with the client after its last unlock:
// no caller waits for it, and neither the grant nor its session is in doubt. All leases on
// the grant together have Terms.Linger, counted from the first unlock, so that a notice
// that is lost costs a waiter no more than that. sh.mu must be held.
func (g *grant) mayLingerLocked(now clock.Instant) bool {
	t, s, q := g.claim.Terms, g.s, g.q
	return t.Linger > 0 && t.Mode == driver.Exclusive && g.state == grantHeld &&
		q != nil && q.exclusive == g && q.first == nil && !s.sh.closed &&
		s.steadyLocked() && len(s.idle) < maxLingering && !g.unsure &&
		g.tokenLeft() && !g.wantedLocked() && (g.lingerEnd == 0 || g.nextCheck != 0 && now < g.lingerEnd)
}

// lingerOrRelease makes the grant idle, now that its last holder is notified: the next one
// may come at once. If a caller came in between, the grant is handed off or given back.
func (r *release) lingerOrRelease(ctx context.Context) error {
	g, sh := r.g, r.g.s.sh
	sh.mu.Lock()
	g.s.users--
	now := r.now // however long hooks took: it ends earlier, and taking it again reads the clock
	if g.mayLingerLocked(now) {
		g.lingerLocked(now)
		sh.mu.Unlock()
		return nil
	}
	g.s.idleSince = now
	*r = g.releaseLocked(r.by, now) // so that a panic abandons this one
	sh.mu.Unlock()
	return r.finish(ctx)
}

// giveUpLingering gives the grant back: a hook panicked before it was idle.
func (g *grant) giveUpLingering() {
	g.s.sh.mu.Lock()
	g.s.leftLocked()
	ok := g.detachLocked()
	if ok {
		g.queueWithdrawalLocked()
	}
	g.s.sh.mu.Unlock()
	if ok {
		g.freeQueue()
	}
}

// lingerLocked makes the grant idle. sh.mu must be held.
func (g *grant) lingerLocked(now clock.Instant) {
	s := g.s
	g.state, g.q.state = grantLingering, queueLingering
	g.idleIndex = uint16(len(s.idle))
	s.idle = append(s.idle, g)
	s.idleSince = now
	if g.lingerEnd == 0 {
		g.lingerEnd = now.Add(g.claim.Terms.Linger)
		g.nextCheck = g.lingerEnd
		heap.Push(&s.deadlines, g)
		s.timer.Reset(s.untilCheckLocked(s.c.clock.Now()))
	}
}

// relockLocked returns a lease on an idle grant, with a fresh token and without a round
// trip, or nil if the grant must be given back. A suspend may lie between the unlock and
// now, so now must count it: that of clock.Sent does not. sh.mu must be held.
func (g *grant) relockLocked(ctx context.Context, terms *driver.Terms, now clock.Instant) *Lease {
	s := g.s
	if !sameTerms(g.claim.Terms, terms) || !s.steadyLocked() || now >= clock.Instant(s.deadline.Load()) ||
		now >= g.lingerEnd || !g.tokenLeft() {
		return nil
	}
	g.state = grantHeld
	g.notIdleLocked()
	g.q.hold(g)
	return g.newLeaseLocked(ctx, g.nextTokenLocked(), now)
}

// recallLocked gives an idle grant back. Its withdrawal is queued, and the name is free for
// the next acquisition at once: an attempt that overtakes the withdrawal is queued behind
// it. sh.mu must be held.
func (g *grant) recallLocked() {
	if g.state != grantLingering {
		return
	}
	if g.detachLocked() { // or it ends with its session
		g.recalled = max(g.s.c.clock.Sent(), 1) // zero would mean that it was not
		g.queueWithdrawalLocked()
	}
	if q := g.q; q.exclusive == g {
		q.state, q.exclusive = queueIdle, nil // no caller waits for an idle grant
		g.s.sh.tidyLocked(q)
	}
}

// recallAllLocked gives every idle grant back: the session is in doubt, and an idle grant is
// not worth being reclaimed. sh.mu must be held.
func (s *session) recallAllLocked() {
	for i := len(s.idle) - 1; i >= 0; i-- { // from the end: each is taken out
		s.idle[i].recallLocked()
	}
}

// notIdleLocked takes the grant out of the idle ones of its session. These are kept apart from the
// other grants, of which there may be a million. sh.mu must be held.
func (g *grant) notIdleLocked() {
	s, last := g.s, len(g.s.idle)-1
	s.idle[g.idleIndex] = s.idle[last]
	s.idle[g.idleIndex].idleIndex = g.idleIndex
	s.idle[last] = nil
	s.idle = s.idle[:last]
}

// doubt notes that a renewal failed. Nothing lingers until one succeeds.
func (s *session) doubt() {
	s.sh.mu.Lock()
	defer s.sh.mu.Unlock()
	s.doubtful = true
	s.recallAllLocked()
}

// steadyLocked reports whether the session is open and its last renewal succeeded. sh.mu
// must be held.
func (s *session) steadyLocked() bool { return s.state == sessionOpen && !s.doubtful }

// unusedLocked reports whether the session has no grants but idle ones, of which there are few.
// sh.mu must be held.
func (s *session) unusedLocked() bool {
	for g := s.grants; g != nil; g = g.next {
		if g.state != grantLingering {
			return false
		}
	}
	return true
}

// wantedLocked reports whether the store notified that a claim waits behind the grant.
// sh.mu must be held.
func (g *grant) wantedLocked() bool {
	w := g.s.watches[g.claim.Seq]
	return w != nil && w.wanted
}

// tokenLeft reports whether the grant has a token for another lease: the index of the next
// one begins again at 0 when all are used.
func (g *grant) tokenLeft() bool { return g.index != 0 }

// relockLocked takes the lock of a name that lingers in this client, or gives the idle
// grant back. A nil lease means that the acquisition must call the store. sh.mu must be
// held.
func (sh *Shard) relockLocked(ctx context.Context, name string, terms *driver.Terms) *Lease {
	q := sh.queues[name]
	if q == nil || q.state != queueLingering {
		return nil
	}
	l := q.exclusive.relockLocked(ctx, terms, sh.c.clock.Recent())
	if l == nil {
		q.exclusive.recallLocked()
	}
	return l
}

// announceRelock emits the event of the lease's beginning and returns the lease.
func (l *Lease) announceRelock() *Lease {
	announced := false
	defer func() {
		if !announced {
			l.Abandon() // a hook panicked: the caller will never have it
		}
	}()
	l.announce(LeaseHandedOff, 0)
	announced = true
	return l
}
