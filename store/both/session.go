// SPDX-License-Identifier: Apache-2.0

package both

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// session is a session in each of the two stores.
type session struct {
	s         *Store
	key       sessionKey
	ttl       time.Duration
	old, next driver.Session
	claims    *claims
}

var _ driver.Session = (*session)(nil)

// KeepAlive implements driver.Session. It succeeds when both sessions are kept. It does not wait for
// the other store once one of them has ended its session.
func (s *session) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	type answer struct {
		old     bool
		renewal driver.Renewal
		err     error
	}
	answers := make(chan answer, 2)
	ask := func(old bool, drv driver.Session) {
		r, err := drv.KeepAlive(ctx)
		answers <- answer{old, r, err}
	}
	go ask(true, s.old)
	go ask(false, s.next)
	var old, next answer
	for range 2 {
		a := <-answers
		if a.old {
			old = a
		} else {
			next = a
		}
		if errors.Is(a.err, driver.ErrGone) || errors.Is(a.err, driver.ErrRefused) {
			break
		}
	}
	if err := failures("keep alive", old.err, next.err); err != nil {
		return driver.Renewal{}, err
	}
	return renewed(old.renewal, next.renewal), nil
}

// renewed is what both stores return of a session: it lives as long as the shorter of the two does.
func renewed(old, next driver.Renewal) driver.Renewal {
	next.TTL = min(old.TTL, next.TTL)
	next.Broken = slices.Concat(old.Broken, next.Broken)
	slices.Sort(next.Broken)
	next.Broken = slices.Compact(next.Broken)
	return next
}

// Withdraw implements driver.Session: from the next store, then from the old one. If the next store was
// reset, the claim stays in the old one: the session is opened again, and reclaims the claim in both.
func (s *session) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	c, known := s.claims.get(w.Seq)
	w.Tombstone = w.Tombstone || c.unsure
	var old, next driver.Removed
	oldErr, nextErr := inReverse(ctx,
		func() (err error) {
			if !known || c.asked || w.Tombstone {
				next, err = s.next.Withdraw(ctx, w)
			}
			return err
		},
		func() (err error) {
			old, err = s.old.Withdraw(ctx, w)
			return err
		})
	if known {
		c = s.claims.change(w.Seq, func(c *claim) {
			c.foundOld, c.foundNext = max(c.foundOld, old), max(c.foundNext, next)
		})
		old, next = c.foundOld, c.foundNext
	}
	if err := failures("withdraw", oldErr, nextErr); err != nil {
		return driver.WasAbsent, err
	}
	s.claims.drop(w.Seq)
	return removed(old, next, c.reported), nil
}

// inReverse makes a call to the next store and then one to the old store, unless the next one was reset.
// If the next one takes half of the time that the call has, the old one does not wait for it any longer.
func inReverse(ctx context.Context, next, old func() error) (oldErr, nextErr error) {
	done := make(chan error, 1)
	go func() { done <- next() }()
	var late <-chan time.Time
	if end, ok := ctx.Deadline(); ok {
		t := time.NewTimer(time.Until(end) / 2)
		defer t.Stop()
		late = t.C
	}
	select {
	case nextErr = <-done:
		if errors.Is(nextErr, driver.ErrReset) {
			return nil, nextErr
		}
		return old(), nextErr
	case <-late:
		oldErr = old()
		return oldErr, <-done
	}
}

// Reclaim implements driver.Session: what both stores give back is held.
func (s *session) Reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	kept := make([]bool, len(held))
	var at []int
	var inOld []driver.Held
	for i, h := range held {
		if c, known := s.claims.get(h.Claim.Seq); known && c.granted {
			at = append(at, i)
			inOld = append(inOld, driver.Held{Claim: h.Claim, Token: c.old})
		}
	}
	got, err := s.old.Reclaim(ctx, inOld, last)
	if err != nil {
		return nil, failures("reclaim", err, nil)
	}
	var back []int
	var inNext []driver.Held
	for j, i := range at {
		if got[j] {
			back = append(back, i)
			inNext = append(inNext, held[i])
		}
	}
	got, err = s.next.Reclaim(ctx, inNext, last)
	if err != nil {
		return nil, failures("reclaim", nil, err)
	}
	for j, i := range back {
		kept[i] = got[j]
	}
	return kept, nil
}

// Close implements driver.Session.
func (s *session) Close(ctx context.Context) error {
	oldErr, nextErr := inReverse(ctx, func() error { return ended(s.next.Close(ctx)) }, func() error { return ended(s.old.Close(ctx)) })
	s.s.mu.Lock()
	if s.s.sessions[s.key] == s.claims {
		delete(s.s.sessions, s.key) // nothing is reclaimed any more, even if Close is called again
	}
	s.s.mu.Unlock()
	return failures("close", oldErr, nextErr)
}

// ended returns the error of a Close, nil if the session had ended already.
func ended(err error) error {
	if errors.Is(err, driver.ErrGone) {
		return nil
	}
	return err
}
