// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/timing"
)

// A claim of unknown outcome must not stay in the store: its session lives on
// and would keep it for ever. So every withdrawal is repeated until the store
// acknowledges it or the session has ended, by one goroutine per session, on a
// context of its own, whatever became of the caller's.

// withdraw hands a claim that nobody waits for to the settler. A nil p is fine.
func (p *pending) withdraw() {
	if p == nil || !p.sent {
		return
	}
	p.s.sh.mu.Lock()
	p.s.sweepUp(driver.Withdrawal{Seq: p.claim.Seq, Name: p.claim.Name, Bury: p.unsure})
	p.s.sh.mu.Unlock()
}

// sweepUp queues a withdrawal. Wants sh.mu.
func (s *session) sweepUp(w driver.Withdrawal) {
	if !s.open {
		return // ends with the session
	}
	s.debris = append(s.debris, w)
	if !s.settling && s.c.background(s.settle) {
		s.settling = true
	}
}

// settle withdraws what is queued until nothing is left. Even an error that is
// definite is no reason to give up: the server may be out of memory for a while,
// and the claim would block everybody for as long as the session lives.
func (s *session) settle() {
	for failures := 1; ; {
		s.sh.mu.Lock()
		if len(s.debris) == 0 || !s.open {
			s.settling = false
			s.sh.mu.Unlock()
			return
		}
		w := s.debris[0]
		s.sh.mu.Unlock()
		_, err := s.callWithdraw(context.Background(), w)
		s.gone(err)
		if errors.Is(err, driver.ErrForgotten) {
			s.resumeSoon()
		}
		s.sh.mu.Lock()
		s.debris = s.debris[1:]
		if err != nil {
			s.debris = append(s.debris, w) // behind the others, whatever the error
		}
		s.sh.mu.Unlock()
		if err != nil {
			sleep(s.ctx, timing.Backoff(failures, s.trusted()/100, s.trusted()/12, rand.Float64()))
			failures++
			continue
		}
		failures = 1
		if s.c.watched() {
			s.c.emit(Event{Kind: ClaimSettled, Shard: s.sh.id, Session: s.id, Name: w.Name, Err: err})
		}
	}
}

// callWithdraw makes one bounded call that no caller's context can cut short.
func (s *session) callWithdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	s.sh.mu.Lock()
	drv := s.drv
	s.sh.mu.Unlock()
	call, over := s.withdrawals.context(context.WithoutCancel(ctx))
	defer over()
	return drv.Withdraw(call, w)
}
