// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/timing"
)

// Downgrade turns a writer's lease into a reader's, without a moment in which
// another writer could come in. If it fails it is not known which of the two it is.
func (l *Lease) Downgrade(ctx context.Context, terms *driver.Terms) error {
	claim, err := l.weaken(terms)
	if claim != nil {
		// Granted as a reader or not known: local waiters ask the store either way.
		defer l.g.freeQueue()
		err = l.reshape(ctx, claim)
	}
	if err != nil {
		return l.g.s.c.fail(Failure{Op: "downgrade", Name: l.Name(), Err: err})
	}
	return nil
}

// weaken takes the lease for a reader's before the store is asked: whatever
// becomes of the call, its holder must not write under it again. It returns nil if the
// lease is a reader's already, in the store too.
func (l *Lease) weaken(terms *driver.Terms) (*driver.Claim, error) {
	g := l.g
	g.s.sh.mu.Lock()
	defer g.s.sh.mu.Unlock()
	switch {
	case l.cause != nil:
		return nil, l.cause
	case g.s.c.clock.Now() >= l.deadline():
		return nil, l.overdueLocked()
	case g.claim.Terms.Mode == driver.Shared && !g.downgradeUnconfirmed:
		return nil, nil
	case g.claim.Terms.Mode == driver.Shared: // an earlier call failed, or is under way
		g.attempts++
		claim := g.claim
		return &claim, nil
	case g.leases != l || l.next != nil:
		return nil, errors.New("it was re-entered; unlock the inner leases first")
	}
	weaker := *g.claim.Terms // its ends stay
	weaker.Mode, weaker.Weight, weaker.Limit, weaker.Record, weaker.Linger = terms.Mode, terms.Weight, terms.Limit, terms.Record, 0
	g.claim.Terms = &weaker
	g.downgradeUnconfirmed = true
	// An unlock during the call must tombstone the claim: the attempt may come after it.
	g.attempts++
	claim := g.claim
	return &claim, nil
}

// reshape asks for the granted claim with other terms until the store answers.
func (l *Lease) reshape(ctx context.Context, claim *driver.Claim) error {
	s := l.g.s
	p, done := &sentClaim{s: s, claim: *claim, held: true}, false
	defer func() {
		s.sh.mu.Lock()
		l.g.attempts--
		l.g.unsure = l.g.unsure || p.unsure
		l.g.downgradeUnconfirmed = l.g.downgradeUnconfirmed && !done
		s.sh.mu.Unlock()
	}()
	for failures := 1; ; failures++ {
		a, err := p.attempt(ctx)
		if err == nil && s.resumedSince(a.generation) {
			err = errNotReclaimed // the answer is about data that is gone
		}
		switch {
		case err == nil && a.State == driver.Granted:
			done = true
			return nil
		case err == nil:
			if err := l.Err(); err != nil { // unlocked or lost during the call
				return err
			}
			return s.c.lost(ForceUnlocked)
		case errors.Is(err, driver.ErrGone):
			s.endIfGone(err)
			return context.Cause(s.ctx)
		case errors.Is(err, driver.ErrReset):
			s.renewNow()
		case !Transient(err) && err != errNotReclaimed:
			return err
		}
		if ctx.Err() != nil || !Sleep(ctx, timing.Backoff(failures, s.trusted()/100, s.trusted()/12, rand.Float64())) {
			return fmt.Errorf("%w: %w: %w", ErrUnavailable, CtxError(ctx), err)
		}
		if err := l.Err(); err != nil {
			return err
		}
	}
}
