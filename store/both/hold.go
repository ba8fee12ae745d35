// SPDX-License-Identifier: Apache-2.0

package both

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// withoutHolds is a claim as the old store gets it. Times that count from its grant would begin to count
// before the new store has granted it: the old lock of a claim that waits would end by its MaxHold, and that of
// a claim that gave up would stay taken for its MinHold. Both are counted from the common grant instead.
func withoutHolds(c *driver.Claim) *driver.Claim {
	if c.Terms.MinHold == 0 && c.Terms.MaxHold == 0 {
		return c
	}
	terms, old := *c.Terms, *c
	terms.MinHold, terms.MaxHold = 0, 0
	old.Terms = &terms
	return &old
}

// held notes that both stores have granted the claim, and how much is left of its MaxHold in the new store, 0 if
// that is not known.
func (s *session) held(c *driver.Claim, token driver.Token, rest time.Duration) {
	s.claims.change(c.Seq, func(known *claim) {
		if !known.reported {
			known.at, known.minHold = time.Now(), c.Terms.MinHold
		}
		known.reported, known.raised = true, token
		switch {
		case c.Terms.MaxHold == 0:
		case known.end == nil:
			if rest == 0 {
				rest = c.Terms.MaxHold
			}
			known.end = time.AfterFunc(rest, func() { s.endOld(c.Seq, c.Name) })
		case rest > 0:
			known.end.Reset(rest)
		}
	})
}

// endPatience bounds the end of an old grant at its MaxHold.
const endPatience = time.Second

// endOld ends the old grant of a claim whose MaxHold is over in the new store. If the old store does not answer,
// the client library's own withdrawal ends it.
func (s *session) endOld(seq uint64, name string) {
	c, known := s.claims.get(seq)
	if !known {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endPatience)
	defer cancel()
	w := driver.Withdrawal{Seq: seq, Name: name}
	w.KeepFor = c.keepOld(w)
	_, _ = s.old.Withdraw(ctx, w)
}
