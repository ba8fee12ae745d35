// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// session is one process's handle on a shard. It is only an id and the
// incarnation it was opened in; everything else is in the shard.
type session struct {
	store       *Store
	sh          *shard
	id          driver.SessionID
	incarnation uint64
}

// enter begins a call: it returns with the shard locked, or an error and the
// shard not locked.
func (s *session) enter(ctx context.Context, op string) (*liveness, time.Time, error) {
	if err := ctx.Err(); err != nil {
		return nil, time.Time{}, ended(op, err)
	}
	s.sh.mu.Lock()
	now := s.sh.sweep()
	l, err := s.sh.find(s.id, s.incarnation)
	if err != nil {
		s.sh.mu.Unlock()
		return nil, now, err
	}
	return l, now, nil
}

// KeepAlive implements driver.Session.
func (s *session) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	l, now, err := s.enter(ctx, "keep alive")
	if err != nil {
		return driver.Renewal{}, err
	}
	defer s.sh.mu.Unlock()
	s.sh.extend(l, now)
	s.sh.renotify(l)
	return l.renewal(now), nil
}

// Attempt implements driver.Session.
func (s *session) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	l, now, err := s.enter(ctx, "attempt")
	if err != nil {
		return driver.Outcome{}, err
	}
	defer s.sh.mu.Unlock()
	defer s.sh.tidy(c.Name)
	lk := s.sh.refresh(c.Name, now)
	had := l.claims[c.Seq] != nil && l.claims[c.Seq].granted
	if l.refuses(c.Seq) {
		return driver.Outcome{State: driver.Absent}, nil
	}
	s.sh.raise(c.Floor)
	e := l.claims[c.Seq]
	if e == nil {
		e = s.sh.admit(l, lk, c, now, !s.store.opts.NoQueue)
	} else if e.granted {
		s.sh.downgrade(lk, e, c.Terms, now)
	}
	if e != nil {
		e.suspect = false // its session knows of it
		e.watch(c)
	}
	s.sh.notifyHolders(lk)
	if had && c.Lift && e.token < c.Floor {
		s.sh.lift(lk, e)
	}
	out := s.sh.outcome(lk, e, now)
	if out.State != driver.Granted && c.Floor > 0 {
		out.Token = s.sh.highestToken()
	}
	return out, nil
}

// downgrade gives an exclusive grant shared terms, if that is what they are.
func (sh *shard) downgrade(lk *lock, e *entry, terms *driver.Terms, now time.Time) {
	if e.claim.Terms.Mode == driver.Exclusive && terms.Mode == driver.Shared {
		e.claim.Terms = terms
		sh.promote(lk, now)
	}
}

// admit lets a new claim in: granted if it fits and no claim waits, queued if
// it asks for that. It returns nil if the claim is neither.
func (sh *shard) admit(l *liveness, lk *lock, c *driver.Claim, now time.Time, queue bool) *entry {
	e := &entry{live: l, claim: *c, since: now}
	free := len(lk.queue) == 0 && sh.fits(lk, c.Terms)
	switch {
	case sh.grace(now) == 0 && (free || lk.reenters(c.Terms)):
		sh.grant(lk, e, now)
	case c.Queue && queue:
		lk.queue = append(lk.queue, e)
	default:
		return nil
	}
	l.claims[c.Seq] = e
	return e
}

// Await implements driver.Session.
func (s *session) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	for {
		l, now, err := s.enter(ctx, "await")
		if err != nil {
			return driver.Outcome{}, err
		}
		e := l.claims[c.Seq]
		out := driver.Outcome{State: driver.Absent}
		if e != nil {
			out = s.sh.outcome(s.sh.lock(c.Name), e, now)
		} else if lk := s.sh.locks[c.Name]; lk != nil {
			out = s.sh.outcome(lk, nil, now)
		}
		out.Remaining = 0
		if e == nil || e.granted || !s.store.Caps().Push {
			s.sh.mu.Unlock()
			return out, nil
		}
		if e.wake == nil {
			e.wake = make(chan struct{})
		}
		wake := e.wake // taken under the lock: no change can be missed
		s.sh.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return driver.Outcome{}, ended("await", ctx.Err())
		}
	}
}

// Withdraw implements driver.Session.
func (s *session) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	l, now, err := s.enter(ctx, "withdraw")
	if err != nil {
		return driver.WasAbsent, err
	}
	defer s.sh.mu.Unlock()
	s.sh.refresh(w.Name, now) // first: a grant that ends just now leaves its own mark
	defer s.sh.tidy(w.Name)
	broken := l.foundBroken(w.Seq)
	delete(l.spent, w.Seq)
	if w.Tombstone {
		l.tombstone(w.Seq)
	}
	e := l.claims[w.Seq]
	switch {
	case e != nil && e.claim.Name == w.Name: // even if it was broken before: an attempt may come late
	case broken:
		return driver.WasBroken, nil
	default:
		return driver.WasAbsent, nil
	}
	found := driver.WasQueued
	if e.granted {
		found = driver.WasGranted
	}
	s.sh.remove(e, now, w.KeepFor)
	s.sh.promote(s.sh.lock(w.Name), now)
	return found, nil
}

// Close implements driver.Session.
func (s *session) Close(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return ended("close", err)
	}
	s.sh.mu.Lock()
	defer s.sh.mu.Unlock()
	now := s.sh.sweep()
	l, err := s.sh.find(s.id, s.incarnation)
	if errors.Is(err, driver.ErrReset) {
		return err // what survived of it is ended when it was opened again
	}
	if err == nil {
		s.sh.end([]*liveness{l}, now)
	}
	return nil
}
