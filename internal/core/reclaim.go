// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
)

// reclaimBatch is how many leases one Reclaim carries.
const reclaimBatch = 512

// renewNow makes the session's loop renew at once, and so find out that the store lost
// its data. Only the loop resumes, so that it happens once.
func (s *session) renewNow() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// resume opens the session again with the same id after the store lost its
// data, and reclaims every lease. The deadline moves only when all of them
// are reclaimed or lost: until then each is trusted exactly as long as before, and if
// the time runs out in between, the session is lost as any other.
func (s *session) resume() (clock.Instant, error) {
	s.sh.mu.Lock()
	before := s.drv
	s.sh.mu.Unlock()
	drv, renewal, sent, err := s.callOpen(s.ctx, before, s.tryTimeout())
	if err != nil {
		return sent, err
	}
	s.sh.mu.Lock()
	// A grant of the old incarnation whose answer is still on its way is in no
	// list: in another generation its attempt is made again.
	s.drv = drv
	s.generation++
	s.state = s.state.reopened()
	grants, held := s.reclaimableLocked()
	s.sh.mu.Unlock()
	for first := true; first || len(held) > 0; first = false {
		n := min(len(held), reclaimBatch)
		if err := s.reclaim(drv, grants[:n], held[:n], n == len(held)); err != nil {
			return sent, err
		}
		grants, held = grants[n:], held[n:]
	}
	if !s.confirm(sent, renewal) {
		return sent, context.Cause(s.ctx)
	}
	s.moveOn(sessionOpen)
	s.c.emitSession(s, SessionResumed, 0, nil)
	return sent, nil
}

// tryTimeout bounds one call of a resume: a lost reply leaves time for another
// try, even where CallTimeout is longer than the trusted time.
func (s *session) tryTimeout() time.Duration {
	left := clock.Instant(s.deadline.Load()).Sub(s.c.clock.Now())
	return min(s.c.opts.CallTimeout, left/2)
}

// reclaimableLocked returns what the store must give back: what is held, and what was
// given back with a mark to leave, unless the store acknowledged it. A claim that
// is not reclaimed is dropped, and its mark would never be left. sh.mu must be
// held.
func (s *session) reclaimableLocked() (grants []*grant, held []driver.Held) {
	add := func(g *grant) {
		grants = append(grants, g)
		held = append(held, driver.Held{Claim: g.claim, Token: g.token})
	}
	for g := s.grants; g != nil; g = g.next {
		add(g)
	}
	for g := range s.leaving {
		add(g)
	}
	return grants, held
}

// reclaim puts one batch back and loses what the store does not give back.
func (s *session) reclaim(drv driver.Session, batch []*grant, held []driver.Held, last bool) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.tryTimeout())
	defer cancel()
	kept, err := drv.Reclaim(ctx, held, last)
	var missing []*grant
	s.sh.mu.Lock()
	for i, g := range batch {
		g.unsure = g.unsure || err != nil && Transient(err)
		if !g.state.attached() && (err != nil || kept[i]) {
			// Given back during the call: its withdrawal may have come before the
			// reclaim, which then put it back.
			g.queueWithdrawalLocked()
		}
		switch {
		case err != nil:
		case kept[i]:
			g.generation = s.generation
		default:
			g.notReclaimed = true
			missing = append(missing, g)
		}
	}
	s.sh.mu.Unlock()
	// A store that is made of several may still have the lock in one of them.
	loseAll(missing, missing, s.c.lost(StoreReset), s.c.opts.Margin)
	return err
}
