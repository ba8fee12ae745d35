// SPDX-License-Identifier: Apache-2.0

package both

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// session is a session in each of the two stores.
type session struct {
	s         *Store
	id        driver.SessionID
	ttl       time.Duration
	old, next driver.Session
	claims    *claims
	// doubt is set if the new store may be in a grace period.
	doubt atomic.Bool
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
	marked := s.claims.allMarked()
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
	s.claims.dropMarked(marked)
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

// Withdraw implements driver.Session: from the new store, then from the old one.
func (s *session) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	c, known := s.claims.get(w.Seq)
	w.Tombstone = w.Tombstone || c.unsure
	if w.KeepFor > 0 {
		s.claims.mark(w.Seq, false)
	}
	var old, next driver.Removed
	oldErr, nextErr := inReverse(ctx,
		func() (err error) {
			if !known || c.asked || w.Tombstone {
				next, err = s.next.Withdraw(ctx, w)
			}
			return err
		},
		func() (err error) {
			w := w
			w.KeepFor = c.keepOld(w)
			old, err = s.old.Withdraw(ctx, w)
			return err
		})
	if now, still := s.claims.change(w.Seq, func(c *claim) {
		c.foundOld, c.foundNext = max(c.foundOld, old), max(c.foundNext, next)
	}); still {
		old, next = now.foundOld, now.foundNext
	}
	if err := failures("withdraw", oldErr, nextErr); err != nil {
		return driver.WasAbsent, err
	}
	if w.KeepFor > 0 {
		s.claims.mark(w.Seq, true)
	} else {
		s.claims.drop(w.Seq)
	}
	return removed(old, next, c.reported), nil
}

// inReverse makes a call to the new store and then one to the old store.
// If the new one takes half of the time that the call has, the old one does not wait for it any longer.
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
		return old(), nextErr
	case <-late:
		oldErr = old()
		return oldErr, <-done
	}
}

// Reclaim implements driver.Session: what both stores give back is held. A claim whose withdrawal leaves marks may have
// left one in the store that kept its data, so it is enough if the other gives it back: it is withdrawn again.
func (s *session) Reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	kept := make([]bool, len(held))
	var at []int
	var inOld []driver.Held
	for i, h := range held {
		if c, known := s.claims.reclaim(h.Claim.Seq); known && c.granted {
			at = append(at, i)
			inOld = append(inOld, driver.Held{Claim: *withoutHolds(&h.Claim), Token: c.old})
		}
	}
	got, err := s.old.Reclaim(ctx, inOld, last)
	if err != nil {
		return nil, failures("reclaim", err, nil)
	}
	var back []int
	var inNext []driver.Held
	for j, i := range at {
		kept[i] = got[j]
		if got[j] || s.claims.isMarked(held[i].Claim.Seq) {
			back = append(back, i)
			inNext = append(inNext, held[i])
		}
	}
	got, err = s.next.Reclaim(ctx, inNext, last)
	if err != nil {
		return nil, failures("reclaim", nil, err)
	}
	for j, i := range back {
		if seq := held[i].Claim.Seq; s.claims.isMarked(seq) {
			kept[i] = kept[i] || got[j]
			s.claims.unmark(seq)
		} else {
			kept[i] = got[j]
		}
	}
	if last {
		return kept, s.dropLeftOver(ctx)
	}
	return kept, nil
}

// dropsAtOnce is how many claims that are left over are withdrawn at once.
const dropsAtOnce = 16

// dropLeftOver withdraws what was left over from before the session was opened again.
func (s *session) dropLeftOver(ctx context.Context) error {
	var all sync.WaitGroup
	slots, failed := make(chan struct{}, dropsAtOnce), make(chan error, 1)
	for _, w := range s.claims.leftOver() {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if _, err := s.Withdraw(ctx, w); err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// Close implements driver.Session.
func (s *session) Close(ctx context.Context) error {
	oldErr, nextErr := inReverse(ctx, func() error { return ended(s.next.Close(ctx)) }, func() error { return ended(s.old.Close(ctx)) })
	s.claims.close()
	return failures("close", oldErr, nextErr)
}

// ended returns the error of a Close, nil if the session had ended already.
func ended(err error) error {
	if errors.Is(err, driver.ErrGone) {
		return nil
	}
	return err
}
