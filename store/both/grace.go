// SPDX-License-Identifier: Apache-2.0

package both

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// gracePatience is how long an attempt waits for the news whether the new store is in a grace period. A store that does not
// answer that soon is asked for the lock, as if it were not.
const gracePatience = 100 * time.Millisecond

// graceOf returns how much is left of a grace period of the new store, as far as that is known soon. Only a session that is
// in doubt asks: one that was opened, because the store may have lost its data, and one that has met a grace period.
func (s *session) graceOf(ctx context.Context, name string) time.Duration {
	if !s.doubt.Load() {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, gracePatience)
	defer cancel()
	st, err := s.s.next.Inspect(ctx, name)
	if err == nil && st.Grace == 0 {
		s.doubt.Store(false)
	}
	return st.Grace
}

// attemptInGrace asks the new store alone, for its own answer in a grace period: it may have tombstoned the claim. It grants
// nothing then. If the grace period has just ended and it does, that is given back: the old lock comes first.
func (s *session) attemptInGrace(ctx context.Context, c *driver.Claim, left time.Duration) (driver.Outcome, error) {
	before := false
	if _, ok := s.claims.change(c.Seq, func(c *claim) { before, c.asked = c.asked, true }); !ok && c.Queue {
		return absent, nil
	}
	asked := *c
	asked.Queue = false
	out, err := s.next.Attempt(ctx, &asked)
	switch {
	case err != nil:
		return driver.Outcome{}, s.halfway(failures("attempt", nil, err))
	case out.State == driver.Absent:
		return s.lost(ctx, c)
	case out.State == driver.Busy && out.Grace:
		s.claims.change(c.Seq, func(c *claim) { c.asked = before })
		left = out.PollAfter
	}
	return s.rest(ctx, c, left)
}

// rest is the answer to a claim that the new store cannot grant because of its grace period. The claim gives back what it
// has, in the old store too: processes in phase old would wait as long. It begins again after the grace period, behind
// those that came meanwhile.
func (s *session) rest(ctx context.Context, c *driver.Claim, left time.Duration) (driver.Outcome, error) {
	known, _ := s.claims.get(c.Seq)
	w := driver.Withdrawal{Seq: c.Seq, Name: c.Name, Tombstone: known.unsure}
	oldErr, nextErr := inReverse(ctx,
		func() (err error) {
			if known.asked {
				_, err = s.next.Withdraw(ctx, w)
			}
			return err
		},
		func() (err error) {
			if known.sent {
				_, err = s.old.Withdraw(ctx, w)
			}
			return err
		})
	if err := failures("attempt", oldErr, nextErr); err != nil {
		return driver.Outcome{}, s.halfway(err)
	}
	if _, still := s.claims.change(c.Seq, func(c *claim) {
		*c = claim{name: c.name, opened: c.opened, unsure: c.unsure, rests: time.Now().Add(left)}
	}); !still && c.Queue { // it was withdrawn meanwhile; the answer to a try is the same
		return absent, nil
	}
	if !c.Queue {
		s.claims.drop(c.Seq) // no withdrawal follows
	}
	return driver.Outcome{State: driver.Busy, Grace: true, PollAfter: left}, nil
}

// awaitRest waits until the grace period must be over. Nothing of the claim is in a store.
func (s *session) awaitRest(ctx context.Context, until time.Time) (driver.Outcome, error) {
	over := time.NewTimer(time.Until(until))
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
	}
	return driver.Outcome{State: driver.Busy, PollAfter: s.ttl / 32}, ctxError("await", ctx)
}
