// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
	"github.com/fencelock/fencelock/internal/timing"
)

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
	s.sh.mu.Unlock()
	if early {
		return a, errNotReclaimed
	}
	call, over := s.attempts.Context(ctx)
	defer over()
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
