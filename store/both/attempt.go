// SPDX-License-Identifier: Apache-2.0

package both

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// absent makes the client library withdraw the claim and begin again with another.
var absent = driver.Outcome{State: driver.Absent}

// Attempt implements driver.Session: in the old store, and if that grants it, in the new one. In a grace period of the
// new store the old one is not asked.
func (s *session) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	known := s.claims.begin(c.Seq, c.Name)
	if !known.reported {
		if left := s.graceOf(ctx, c.Name); left > 0 {
			return s.attemptInGrace(ctx, c, left)
		}
	}
	s.claims.change(c.Seq, func(c *claim) { c.sent, c.rests = true, time.Time{} })
	first, err := s.old.Attempt(ctx, withoutHolds(c))
	switch {
	case err != nil:
		if errors.Is(err, driver.ErrUnknown) || ctx.Err() != nil {
			s.claims.change(c.Seq, func(c *claim) { c.unsure = true })
		}
		return driver.Outcome{}, failures("attempt", err, nil)
	case first.State == driver.Granted && !(known.granted && known.old != first.Token):
		return s.attemptNext(ctx, c, first)
	case known.asked:
		// It waits in the new store, or holds the lock there, and lost the old one. If it waited for the
		// old lock now, two processes could each hold what the other waits for. If it was granted the old
		// lock again, another process may have held that in between, with a token above the new store's.
		return s.lost(ctx, c)
	case c.Queue:
		return waiting(first), nil
	}
	s.claims.drop(c.Seq) // no withdrawal follows
	return s.translated(ctx, c.Name, waiting(first)), nil
}

// translatePatience is how long a try that is busy waits for the new store's tokens.
const translatePatience = 100 * time.Millisecond

// translated gives the holders that the old store has shown the new store's tokens, as far as
// that is known soon: a program may want to break the lock. A claim that waits is not worth the call.
func (s *session) translated(ctx context.Context, name string, out driver.Outcome) driver.Outcome {
	if s.s.caps.Fencing == driver.NoFencing {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, translatePatience)
	defer cancel()
	st, err := s.s.next.Inspect(ctx, name)
	if err != nil {
		return out
	}
	for i, h := range out.Holders {
		if at := find(st.Holders, h); at >= 0 {
			out.Holders[i].Token = st.Holders[at].Token
		}
	}
	return out
}

// attemptNext asks the new store for a claim that the old store has granted.
func (s *session) attemptNext(ctx context.Context, c *driver.Claim, first driver.Outcome) (driver.Outcome, error) {
	known, ok := s.claims.change(c.Seq, func(c *claim) { c.old, c.granted, c.asked = first.Token, true, true })
	if !ok { // it was withdrawn while the old store answered
		return absent, nil
	}
	asked := *c
	if s.s.floored {
		asked.Floor, asked.Lift = above(first.Token), !known.reported
	}
	out, err := s.next.Attempt(ctx, &asked)
	s.doubt.Store(err != nil && s.doubt.Load() || out.Grace)
	switch {
	case errors.Is(err, driver.ErrReset) && !c.Queue && !known.reported:
		s.doubt.Store(true)
		if err := s.giveBack(ctx, c); err != nil { // or the next try would find the old lock taken
			return driver.Outcome{}, err
		}
		return driver.Outcome{}, failures("attempt", nil, err)
	case err != nil:
		return driver.Outcome{}, s.halfway(failures("attempt", nil, err))
	case out.State == driver.Granted:
		return s.complete(ctx, c, out, false)
	case out.State == driver.Absent || known.reported:
		return s.lost(ctx, c)
	case out.Grace:
		return s.rest(ctx, c, out.PollAfter)
	case c.Queue:
		return waiting(out), nil
	}
	return waiting(out), s.giveBack(ctx, c)
}

// lost is the answer to a claim that one of the stores has not got any more. The caller withdraws
// nothing after the answer to a try, so that is done here.
func (s *session) lost(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if known, _ := s.claims.get(c.Seq); c.Queue || known.reported {
		return absent, nil
	}
	w := driver.Withdrawal{Seq: c.Seq, Name: c.Name}
	if _, err := s.next.Withdraw(ctx, w); err != nil {
		return driver.Outcome{}, s.halfway(failures("attempt", nil, err))
	}
	return absent, s.giveBack(ctx, c)
}

// giveBack gives the old lock back for a try that the new store did not grant. The caller withdraws
// nothing after such an answer.
func (s *session) giveBack(ctx context.Context, c *driver.Claim) error {
	if _, err := s.old.Withdraw(ctx, driver.Withdrawal{Seq: c.Seq, Name: c.Name}); err != nil {
		return s.halfway(failures("attempt", err, nil))
	}
	s.claims.drop(c.Seq)
	return nil
}

// halfway is the error of a claim that the old store has granted: something was done, so the outcome is never
// that nothing was.
func (s *session) halfway(err error) error {
	if errors.Is(err, driver.ErrUnavailable) {
		return fmt.Errorf("%w: %w", err, driver.ErrUnknown)
	}
	return err
}

// complete ends an attempt that both stores have granted. With confirm, and to raise the old store's
// later tokens, the old store is asked again.
func (s *session) complete(ctx context.Context, c *driver.Claim, out driver.Outcome, confirm bool) (driver.Outcome, error) {
	known, _ := s.claims.get(c.Seq)
	raise := s.s.raises && known.raised != out.Token
	if confirm || raise {
		again := *withoutHolds(c)
		again.Queue = false
		if raise {
			again.Floor = above(out.Token)
		}
		first, err := s.old.Attempt(ctx, &again)
		if err != nil {
			return driver.Outcome{}, s.halfway(failures("attempt", err, nil))
		}
		if raise && first.State == driver.Granted && first.Token == out.Token && first.Token != known.old {
			return driver.Outcome{}, s.same(ctx, c)
		}
		if first.State != driver.Granted || first.Token != known.old {
			return s.lost(ctx, c)
		}
	}
	s.held(c, out.Token, out.Remaining)
	return out, nil
}

// same is the error of two stores that keep their locks in the same place. Only then the old store has the token that the new
// store has just given: another grant in the old store would be above it. The claim would be taken for lost
// and asked for again, without end.
func (s *session) same(ctx context.Context, c *driver.Claim) error {
	w := driver.Withdrawal{Seq: c.Seq, Name: c.Name}
	if _, err := s.old.Withdraw(ctx, w); err != nil {
		return s.halfway(failures("attempt", err, nil))
	}
	s.claims.drop(c.Seq)
	return fmt.Errorf("both: attempt: Stores.Old and Stores.New keep their locks in the same place, as with one URL for both; give Old the one that the fleet moves from: %w",
		driver.ErrRefused)
}

// Await implements driver.Session: it waits in the store that the claim waits in, and goes on to the new store
// when the old one has granted it.
func (s *session) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	known, _ := s.claims.get(c.Seq)
	if !known.rests.IsZero() {
		return s.awaitRest(ctx, known.rests)
	}
	if !known.asked {
		if !s.s.caps.Push && s.s.old.Caps().Push {
			return driver.Outcome{State: driver.Busy, PollAfter: s.ttl / 32}, ctxError("await", ctx)
		}
		first, err := s.old.Await(ctx, withoutHolds(c))
		if err != nil {
			return driver.Outcome{}, failures("await", err, nil)
		}
		if first.State != driver.Granted {
			return waiting(first), nil
		}
		out, err := s.unattended(c.Seq, func() (driver.Outcome, error) { return s.attemptNext(ctx, c, first) })
		if err != nil || out.State == driver.Granted || out.State == driver.Absent || out.Grace {
			return pushed(out), err
		}
	}
	out, err := s.next.Await(ctx, c)
	switch {
	case err != nil:
		return driver.Outcome{}, failures("await", nil, err)
	case out.State != driver.Granted:
		return waiting(out), nil
	}
	out, err = s.unattended(c.Seq, func() (driver.Outcome, error) { return s.complete(ctx, c, out, true) })
	return pushed(out), err
}

// unattended makes calls of which the caller does not know that they were made.
func (s *session) unattended(seq uint64, f func() (driver.Outcome, error)) (driver.Outcome, error) {
	out, err := f()
	if err != nil {
		s.claims.change(seq, func(c *claim) { c.unsure = true })
	}
	return out, err
}

// ctxError returns the error of a context that has ended, or nil.
func ctxError(op string, ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("both: %s: %w", op, ctx.Err())
}

// pushed is an outcome as Await returns it.
func pushed(out driver.Outcome) driver.Outcome {
	out.Remaining = 0
	return out
}

// waiting is the answer of one store to a claim that is not granted. The token of a floor is of no use to
// the caller, and those of the holders may be the old store's.
func waiting(out driver.Outcome) driver.Outcome {
	out.Token = 0
	holders := make([]driver.Holder, len(out.Holders))
	for i, h := range out.Holders {
		h.Token = 0
		holders[i] = h
	}
	out.Holders = holders
	return out
}

// above is the lowest token above another one and its local handoffs.
func above(t driver.Token) driver.Token { return t.Base() + driver.TokenStep }
