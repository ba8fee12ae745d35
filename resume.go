// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
)

// reclaimBatch is how many leases one Reclaim carries.
const reclaimBatch = 512

// resumeSoon makes the session's loop find out now that the store lost its
// memory: only the loop resumes, so that it happens once.
func (s *session) resumeSoon() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// resume opens the session again with the same id after the store lost its
// memory, and reclaims every lease. The deadline moves only when all of them
// are settled: until then each is trusted exactly as long as before, and if
// the time runs out in between, the session is lost as any other.
func (s *session) resume() (clock.Instant, error) {
	s.c.emitSession(s, SessionForgotten, 0, driver.ErrForgotten)
	drv, life, sent, err := s.callOpen()
	if err != nil {
		return sent, err
	}
	s.sh.mu.Lock()
	// A grant that the old incarnation gave and whose answer is still on its way
	// is in nobody's list: with another gen its attempt is made again.
	s.drv = drv
	s.gen++
	var grants []*grant
	var held []driver.Held
	for g := s.grants; g != nil; g = g.next {
		grants = append(grants, g)
		held = append(held, driver.Held{Claim: g.claim, Token: g.token})
	}
	s.sh.mu.Unlock()
	for first := true; first || len(held) > 0; first = false {
		n := min(len(held), reclaimBatch)
		if err := s.reclaim(drv, grants[:n], held[:n], n == len(held)); err != nil {
			return sent, err
		}
		grants, held = grants[n:], held[n:]
	}
	if !s.confirm(sent, life) {
		return sent, context.Cause(s.ctx)
	}
	s.c.emitSession(s, SessionResumed, 0, nil)
	return sent, nil
}

// reclaim puts one batch back and loses what the store does not give back.
func (s *session) reclaim(drv driver.Session, batch []*grant, held []driver.Held, last bool) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.c.opts.CallTimeout)
	defer cancel()
	kept, err := drv.Reclaim(ctx, held, last)
	var missing []*grant
	s.sh.mu.Lock()
	for i, g := range batch {
		g.unsure = g.unsure || err != nil && transient(err)
		if g.gone && (err != nil || kept[i]) {
			// Given back meanwhile: its withdrawal may have come before the
			// reclaim, which then put it back.
			w := driver.Withdrawal{Seq: g.claim.Seq, Name: g.claim.Name}
			if g.parting != nil {
				w = *g.parting
			}
			w.Bury = w.Bury || g.unsure
			s.sweepUp(w)
		}
		if err == nil && !kept[i] {
			missing = append(missing, g)
		}
	}
	s.sh.mu.Unlock()
	loseAll(missing, missing, lost(ErrForgotten))
	return err
}
