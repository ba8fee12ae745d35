// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
	"github.com/fencelock/fencelock/internal/timing"
)

// How is in which way a lock is acquired.
type How struct {
	// Try is set if the acquisition does not wait for a holder.
	Try bool
	// Outlast is set if a try waits for the end of a grace period, in which it is not known who
	// holds the lock or held it.
	Outlast bool
	// Sole is set if the acquisition needs its own grant: a lease of the same name that
	// the context carries is not re-entered. An occurrence must not run inside itself, and
	// a leader must not be elected beside itself. The context keeps all its leases: work
	// under the new one may need them.
	Sole bool
}

// Op is the operation in errors.
func (h How) Op() string {
	if h.Try {
		return "try lock"
	}
	return "lock"
}

// Acquire gets a lease of the lock of that name, on the shard that keeps it. It waits
// unless how.Try is set.
func (sh *Shard) Acquire(ctx context.Context, name string, terms *driver.Terms, how How) (*Lease, error) {
	c := sh.c
	if ctx.Err() != nil {
		return nil, c.fail(Failure{Op: how.Op(), Name: name, Err: CtxError(ctx)})
	}
	if !how.Sole {
		if l, err := reenter(ctx, c, name, terms, how); l != nil || err != nil {
			return l, err
		}
	}
	sh.mu.Lock()
	if sh.closed {
		sh.mu.Unlock()
		return nil, ErrClosed
	}
	if l := sh.relockLocked(ctx, name, terms); l != nil {
		sh.mu.Unlock()
		return l.announceRelock(), nil
	}
	a := &acquisition{c: c, sh: sh, name: name, terms: terms, try: how.Try, outlast: how.Outlast}
	if c.watched() || ctx.Done() != nil {
		a.began = c.clock.Sent()
	}
	q := sh.queueLocked(name)
	if how.Try {
		busy := q.busyForLocked(terms)
		sh.tidyLocked(q)
		sh.mu.Unlock()
		if busy != nil {
			return nil, a.busy(ctx, busy)
		}
		return a.tryNow(ctx)
	}
	if terms.Reentry != "" {
		// It may join a grant that is here already, so it must not wait for it:
		// it acquires with its own queue.
		sh.tidyLocked(q)
		q = &queue{name: name}
	}
	if q.idle() {
		q.state = queueAcquiring
		sh.mu.Unlock()
		a.q = q
		return a.run(ctx)
	}
	w := c.newWaiter(terms)
	q.push(w)
	q.notifyHolderLocked()
	var holder *driver.Holder
	if c.watched() {
		holder = q.holderLocked()
	}
	sh.mu.Unlock()
	a.q = q
	return a.waitLocal(ctx, w, holder)
}

// acquisition is one call of Lock or TryLock.
//
//	Lock ─▶ the queue is idle ─▶ run ─▶ round ─▶ acquireOn ─▶ attempt ─▶ admit ─▶ lease
//	  │                           ▲      ▲          │           ▲  │
//	  │                           │      │          │           └──┘ await, if not granted
//	  │                           │      └──────────┘ retryOrFail, after an error
//	  └─▶ waitLocal ─ it is next ─┘
//	          └─ a lease was handed to it ──────────────────────────────────────▶ lease
//
//	TryLock ──▶ the client knows that it is busy ──▶ busy
//	  └───────▶ tryNow ──▶ tryAttempt ──▶ attempt ──▶ admit ──▶ lease
type acquisition struct {
	c     *Client
	sh    *Shard
	q     *queue // nil for a try
	name  string
	terms *driver.Terms
	try   bool
	// outlast is set if a try waits for the end of a grace period.
	outlast bool
	// began is when the wait began, for events and errors.
	began clock.Instant
	// waitReported is set when LeaseWaiting was emitted.
	waitReported bool
	// failures counts failures in a row; failingSince is when the first of them was.
	failures     int
	failingSince clock.Instant
	// polls counts waits in a row that ended without a grant.
	polls int
	// lateGrants counts grants that came too late for their fixed end.
	lateGrants int
	// admitted is set when the claim became a grant: there is nothing to give up any more.
	admitted bool
	// waitsOn is the session in whose store its claim has to wait for a holder, or nil.
	waitsOn *session
	// together are the readers that share the grant and do not have it yet.
	together []reader
}

// waitLocal waits in the client's queue until it is given a lease or has to call the
// store itself.
func (a *acquisition) waitLocal(ctx context.Context, w *waiter, holder *driver.Holder) (*Lease, error) {
	waited := false
	defer func() {
		if !waited {
			a.leaveQueue(w) // a hook panicked
		}
	}()
	a.emitWaiting(ctx, nil, Wait{Name: a.name, Holder: holder})
	t, ok := a.nextTurn(ctx, w)
	waited = true
	a.c.recycle(w)
	switch {
	case !ok:
		return nil, a.expired(ctx)
	case t.err != nil:
		return nil, t.err
	case t.lease != nil:
		t.lease.base = ctx
		return t.lease, nil
	}
	return a.run(ctx)
}

// nextTurn returns the waiter's turn, or false if ctx ended first.
func (a *acquisition) nextTurn(ctx context.Context, w *waiter) (turn, bool) {
	done := ctx.Done()
	if done == nil && !a.c.watched() {
		return <-w.ready, true // cheaper than a select
	}
	var check <-chan time.Time
	if a.c.watched() {
		ticker := time.NewTicker(a.c.opts.TTL)
		defer ticker.Stop()
		check = ticker.C
	}
	for {
		select {
		case t := <-w.ready:
			return t, true
		case <-check:
			if a.selfBlocked(w) {
				check = nil
			}
		case <-done:
			a.leaveQueue(w)
			return turn{}, false
		}
	}
}

// leaveQueue takes a waiter that gives up out of the queue.
func (a *acquisition) leaveQueue(w *waiter) {
	a.sh.mu.Lock()
	dropped := a.q.drop(w)
	a.sh.mu.Unlock()
	if !dropped {
		// The turn came at the same moment: hand it on, or those behind would wait
		// forever.
		a.passOn(<-w.ready)
	}
}

// passOn hands an unwanted turn to the next waiter.
func (a *acquisition) passOn(t turn) {
	if t.lease != nil {
		// No caller had the lease, so none gets the result. The cleanup repeats
		// what the store does not confirm.
		a.c.Background(func() { _ = t.lease.Unlock(context.Background(), 0) })
	} else if t.err == nil {
		a.giveUp()
	}
}

// run makes the calls until the claim is granted, ctx ends or the store
// refuses for good.
func (a *acquisition) run(ctx context.Context) (l *Lease, err error) {
	defer func() {
		if l == nil && !a.admitted { // even when a hook or the store panics
			a.giveUp()
		}
	}()
	for l == nil && err == nil {
		l, err = a.round(ctx)
	}
	return l, err
}

// round attempts and waits on one session, and pauses after a failure that is
// worth another round. The session is in use until after the pause: its claim may
// still be in the store's queue, and Close must not take the session for idle.
func (a *acquisition) round(ctx context.Context) (*Lease, error) {
	s, err := a.sh.enter(ctx)
	if err == nil {
		defer s.leave()
		defer a.endWait()
		var l *Lease
		l, err = a.acquireOn(ctx, s)
		if l != nil {
			return l, nil
		}
		s.endIfGone(err)
	}
	return nil, a.retryOrFail(ctx, err)
}

// acquireOn attempts and waits on one session until there is a lease or an error.
func (a *acquisition) acquireOn(ctx context.Context, s *session) (*Lease, error) {
	p := a.claimOn(s)
	for {
		ans, err := p.attempt(ctx)
		if err != nil {
			return nil, err
		}
		if ans.mustWait() {
			a.noteAnswer(s, ans.Outcome)
		}
		if ans.State != driver.Absent {
			a.failures = 0
		}
		for ans.mustWait() {
			a.emitWaiting(ctx, s, waitOf(a.name, ans.Outcome))
			a.polls++
			pushed, err := p.await(ctx, &ans, a.polls)
			if err != nil {
				return nil, err
			}
			if pushed.State != driver.Granted {
				break // attempt again
			}
			a.polls = 0
			if a.terms.MaxHold > 0 {
				break // attempt again, to learn how much is left
			}
			ans.Outcome, ans.sent = pushed, a.c.clock.Sent()
		}
		switch ans.State {
		case driver.Granted:
			l, err := a.admit(ctx, p, &ans)
			if l != nil || errors.Is(err, driver.ErrGone) {
				return l, err
			}
			if errors.Is(err, errTooLate) {
				a.disown(p).withdraw()
				a.lateGrants++
				if a.lateGrants == maxLateGrants {
					return nil, errTooLate
				}
				p = a.claimOn(s)
			}
		case driver.Absent: // granted and ended before the client knew: ask again
			a.disown(p).withdraw()
			return nil, fmt.Errorf("the claim was removed: %w", driver.ErrUnavailable)
		}
	}
}

// disown takes the claim from its queue.
func (a *acquisition) disown(p *sentClaim) *sentClaim {
	a.sh.mu.Lock()
	defer a.sh.mu.Unlock()
	a.q.sent = nil
	return p
}

// claimOn returns the queue's claim on this session, or a new one.
func (a *acquisition) claimOn(s *session) *sentClaim {
	a.sh.mu.Lock()
	defer a.sh.mu.Unlock()
	if a.q != nil && a.q.sent != nil && a.q.sent.s == s {
		return a.q.sent
	}
	p := &sentClaim{s: s, claim: driver.Claim{Seq: s.seq.Add(1), Name: a.name, Terms: a.sh.lingerBackoff.terms(a.name, a.terms), Queue: !a.try}}
	if p.claim.Terms.Linger > 0 {
		p.claim.Watch = true
		s.watchLocked(p.claim.Seq)
	}
	if a.q != nil {
		a.q.sent = p
	}
	return p
}

// retryOrFail decides whether to go on after an error: nil means try again.
func (a *acquisition) retryOrFail(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return a.expired(ctx)
	case errors.Is(err, ErrClosed), a.closed():
		return ErrClosed
	case errors.Is(err, driver.ErrGone) && a.failures == 0:
		a.failures, a.failingSince = 1, a.c.clock.Sent()
		return nil // with a new session; but if that ends too, not at once
	case errors.Is(err, driver.ErrGone):
	case errors.Is(err, driver.ErrReset):
		a.wakeSession()
	case !Transient(err):
		return a.c.fail(Failure{Op: "lock", Name: a.name, Err: err})
	}
	if a.failures == 0 {
		a.failingSince = a.c.clock.Sent()
	}
	a.failures++
	a.noteFailure(err)
	if waited := a.c.clock.Sent().Sub(a.failingSince); waited >= a.c.opts.StoreTimeout {
		return a.c.fail(Failure{Op: "lock", Name: a.name, Err: Unavailable(err),
			Hint: "it has not answered for " + waited.Round(time.Millisecond).String() + " (Options.StoreTimeout)"})
	}
	if !Sleep(ctx, timing.Backoff(a.failures, a.c.opts.TTL/500, a.c.opts.TTL/15, rand.Float64())) {
		return a.expired(ctx)
	}
	return nil
}

// closed reports whether the client was closed: Close cuts calls short, and what they
// then return is not the answer.
func (a *acquisition) closed() bool {
	a.sh.mu.Lock()
	defer a.sh.mu.Unlock()
	return a.sh.closed
}

// wakeSession makes the session find out that the store lost its data.
func (a *acquisition) wakeSession() {
	a.sh.mu.Lock()
	s := a.sh.session
	a.sh.mu.Unlock()
	if s != nil {
		s.renewNow()
	}
}

// giveUp stops acquiring without a lease.
func (a *acquisition) giveUp() {
	a.sh.mu.Lock()
	stale := a.sh.handOffLocked(a.q)
	a.sh.mu.Unlock()
	stale.withdraw()
}

// sentClaim is a claim on one session, from before its first attempt to its grant or
// withdrawal.
type sentClaim struct {
	s     *session
	claim driver.Claim
	// attempted is set when an attempt has been made.
	attempted bool
	// unsure is set when an attempt may still be on its way; a withdrawal must
	// then tombstone the claim, or it would come back under a session that lives.
	unsure bool
	// held is set for the claim of a grant: a store that was reset must give the
	// grant back before it is attempted, or the attempt would be a new claim.
	held bool
}

// answer is what the store returned to an attempt.
type answer struct {
	driver.Outcome
	// generation is the session's at the time of the call. In a later generation the
	// answer is about data that the store has lost.
	generation uint64
	// sent is when the call was made: what the store counts from the grant has
	// begun then at the earliest.
	sent clock.Instant
}

// mustWait reports whether the claim was not granted yet.
func (a *answer) mustWait() bool { return a.State == driver.Queued || a.State == driver.Busy }

// attempt makes one bounded call.
func (p *sentClaim) attempt(ctx context.Context) (a answer, err error) {
	s := p.s
	if ctx.Err() != nil { // nothing was sent, so nothing has to be tombstoned
		return a, fmt.Errorf("%w: %w", driver.ErrUnavailable, ctx.Err())
	}
	s.sh.mu.Lock()
	drv, early := s.drv, p.held && s.state.unreclaimed()
	a.generation = s.generation
	var behind <-chan struct{}
	if !p.attempted && !p.held { // only a new claim makes the queues longer
		behind = s.cleanup.caughtUpLocked()
	}
	s.sh.mu.Unlock()
	if early {
		return a, errNotReclaimed
	}
	call, over := s.attempts.Context(ctx)
	defer over()
	if behind != nil {
		select {
		case <-behind:
		case <-call.Done(): // nothing was sent
			return a, fmt.Errorf("%w: claims of callers that gave up are still to be withdrawn: %w", driver.ErrUnavailable, call.Err())
		}
	}
	a.sent = s.c.clock.Sent()
	unsure := p.unsure
	p.attempted, p.unsure = true, true // even if the store panics
	a.Outcome, err = drv.Attempt(call, &p.claim)
	p.unsure = unsure || err != nil && Transient(err)
	return a, err
}

// await returns a pushed grant, or a zero Outcome when another attempt is worth
// making. last is the answer to the latest attempt, and polls counts this wait and those
// before it that ended without a grant. If the session was opened again after last, the
// claim must be attempted again first: the reclaim drops a claim that was not attempted,
// even if Await has returned its grant.
func (p *sentClaim) await(ctx context.Context, last *answer, polls int) (driver.Outcome, error) {
	s := p.s
	s.sh.mu.Lock()
	drv, reopened := s.drv, s.generation != last.generation
	s.sh.mu.Unlock()
	if reopened {
		return driver.Outcome{}, nil
	}
	least := s.trusted() / 64 // a store's hint of 0.1 ms must not make a busy loop
	until, cancel := context.WithTimeout(ctx, timing.HintedPoll(last.PollAfter, least, s.c.opts.TTL, rand.Float64()))
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel) // a waiter's own session may die
	defer stop()
	pushed, err := drv.Await(until, &p.claim)
	s.endIfGone(err) // even when it is time to poll, or the caller has gone
	switch {
	case ctx.Err() != nil:
		return pushed, CtxError(ctx)
	case s.ctx.Err() != nil:
		return pushed, driver.ErrGone
	case err == nil && pushed.State == driver.Granted:
		return pushed, nil
	case until.Err() != nil:
		return driver.Outcome{}, nil // time to poll
	case err != nil:
		return pushed, err
	}
	// Nothing was pushed and it is not time yet: a store that can only be
	// polled, or a wake-up for nothing.
	if !Sleep(until, timing.Poll(polls, s.c.opts.TTL, rand.Float64())) && ctx.Err() != nil {
		return pushed, CtxError(ctx)
	}
	return driver.Outcome{}, nil
}

// withdraw hands a claim that no caller waits for to the cleanup. A nil p is fine.
func (p *sentClaim) withdraw() {
	if p == nil {
		return
	}
	p.s.sh.mu.Lock()
	defer p.s.sh.mu.Unlock()
	delete(p.s.watches, p.claim.Seq)
	if p.attempted {
		p.s.queueWithdrawalLocked(driver.Withdrawal{Seq: p.claim.Seq, Name: p.claim.Name, Tombstone: p.unsure})
	}
}

// unwatch drops the notices of a claim that the store has not got.
func (p *sentClaim) unwatch() {
	if !p.claim.Watch {
		return
	}
	p.s.sh.mu.Lock()
	defer p.s.sh.mu.Unlock()
	delete(p.s.watches, p.claim.Seq)
}

// A name does not linger for lingerSkipMin acquisitions after another process waited for it, and
// for twice as many, up to lingerSkipMax, each time that the lingering did not pay: a recall costs
// as much as a few locks. So a name that processes take in turn is seldom recalled, and a
// name that sticks to its process pays few round trips for a visitor.
const (
	lingerSkipMin = 8
	lingerSkipMax = 1024
)

// lingerBackoff is what is known of names for which other processes waited. Guarded by the shard's
// mutex.
type lingerBackoff map[string]skipLinger

type skipLinger struct {
	left  uint16 // acquisitions that shall not linger
	turns uint16 // how many there were after the last recall
}

// begin notes that another process waits for a name. paid reports whether it was locked often
// without a round trip before. What is noted is a matter of cost, so all of it may be dropped
// to bound its size.
func (b *lingerBackoff) begin(name string, paid bool) {
	if *b == nil || len(*b) >= maxLingering {
		*b = lingerBackoff{}
	}
	n := max(lingerSkipMin, min(2*(*b)[name].turns, lingerSkipMax))
	if paid {
		n = lingerSkipMin
	}
	(*b)[name] = skipLinger{left: n, turns: n}
}

// terms returns the terms to claim a name with: without Linger while the name backs off. A
// try of another process must not wait for such a claim.
func (b lingerBackoff) terms(name string, t *driver.Terms) *driver.Terms {
	known := b[name]
	if known.left == 0 || t.Linger == 0 {
		return t
	}
	known.left--
	b[name] = known
	plain := *t
	plain.Linger = 0
	return &plain
}

// paidLocked reports whether the grant has saved more round trips than a recall costs. sh.mu must be
// held.
func (g *grant) paidLocked() bool { return g.index > lingerSkipMin || !g.tokenLeft() }
