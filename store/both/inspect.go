// SPDX-License-Identifier: Apache-2.0

package both

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/driver"
)

// Inspect implements driver.Store. It shows what is in the way of a claim in either store: a
// claim that both have granted once, with the next store's token, and those of processes in phase old or next.
func (s *Store) Inspect(ctx context.Context, name string) (driver.Status, error) {
	var old, next driver.Status
	var oldErr, nextErr error
	inParallel(func() { old, oldErr = s.old.Inspect(ctx, name) }, func() { next, nextErr = s.next.Inspect(ctx, name) })
	if err := failures("inspect", oldErr, nextErr); err != nil {
		return driver.Status{}, err
	}
	return merged(old, next), nil
}

// merged is one lock as both stores show it.
func merged(old, next driver.Status) driver.Status {
	st := next
	st.Holders = slices.Clone(next.Holders)
	for _, h := range old.Holders {
		at := find(st.Holders, h)
		switch {
		case at >= 0:
			st.Holders[at].EndsIn = min(st.Holders[at].EndsIn, h.EndsIn)
		case !waits(next, h.Claim):
			st.Holders = append(st.Holders, h)
		}
	}
	st.Waiters = slices.Concat(next.Waiters, old.Waiters)
	st.Waiters = st.Waiters[:min(len(st.Waiters), driver.MaxWaitersReported)]
	st.Waiting = next.Waiting + old.Waiting
	st.Grace = max(old.Grace, next.Grace)
	if st.Limit == 0 {
		st.Limit = old.Limit
	}
	return st
}

// waits reports whether a claim that holds the old lock is shown as a waiter for the next one.
func waits(st driver.Status, id driver.ClaimID) bool {
	return slices.ContainsFunc(st.Waiters, func(w driver.Waiter) bool { return w.Claim == id })
}

// cursors of a listing begin with the store that is read.
const (
	readsNext = "next "
	readsOld  = "old "
)

// List implements driver.Store: the locks of the next store, then those that only the old store has.
func (s *Store) List(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	if !s.caps.Listing {
		return driver.Page{}, fmt.Errorf("both: list: one of the stores cannot list its locks: %w", driver.ErrUnsupported)
	}
	if q.Cursor == "" {
		q.Cursor = readsNext
	}
	if inner, ok := strings.CutPrefix(q.Cursor, readsNext); ok {
		q.Cursor = inner
		return s.listNext(ctx, q)
	}
	inner, ok := strings.CutPrefix(q.Cursor, readsOld)
	if !ok {
		return driver.Page{}, fmt.Errorf("both: list: %q is not a cursor that List returned: %w", q.Cursor, driver.ErrRefused)
	}
	q.Cursor = inner
	return s.listOld(ctx, q)
}

// listNext lists what the next store has, with what the old store shows of it.
func (s *Store) listNext(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	page, err := s.next.List(ctx, q)
	if err != nil {
		return driver.Page{}, failures("list", nil, err)
	}
	for i, st := range page.Locks {
		old, err := s.old.Inspect(ctx, st.Name)
		if err != nil {
			return driver.Page{}, failures("list", err, nil)
		}
		page.Locks[i] = merged(old, st)
	}
	if page.Next != "" {
		page.Next = readsNext + page.Next
	} else {
		page.Next = readsOld
	}
	return page, nil
}

// listOld lists what the old store alone has.
func (s *Store) listOld(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	page, err := s.old.List(ctx, q)
	if err != nil {
		return driver.Page{}, failures("list", err, nil)
	}
	kept := page.Locks[:0]
	for _, st := range page.Locks {
		next, err := s.next.Inspect(ctx, st.Name)
		if err != nil {
			return driver.Page{}, failures("list", nil, err)
		}
		if len(next.Holders) == 0 && next.Waiting == 0 {
			kept = append(kept, merged(st, next))
		}
	}
	page.Locks = kept
	if page.Next != "" {
		page.Next = readsOld + page.Next
	}
	return page, nil
}

// Break implements driver.Store. The token is the next store's, or that of a process in phase old; Inspect
// shows it. The claim is broken in both stores, first in the next one. An old store that cannot break keeps
// the claim until the holder's next renewal, or to the end of its TTL.
func (s *Store) Break(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	var old, next driver.Status
	var oldErr, nextErr error
	inParallel(func() { old, oldErr = s.old.Inspect(ctx, name) }, func() { next, nextErr = s.next.Inspect(ctx, name) })
	if err := failures("break", oldErr, nextErr); err != nil {
		return 0, err
	}
	inOld, inNext := target(old.Holders, next.Holders, token)
	if inOld == 0 && inNext == 0 {
		return 0, fmt.Errorf("both: %q with token %v: %w", name, token, driver.ErrNotHeld)
	}
	var fence driver.Token
	var err error
	if inNext != 0 {
		if fence, err = s.next.Break(ctx, name, inNext); err != nil {
			return 0, failures("break", nil, err)
		}
	}
	if inOld == 0 {
		return fence, nil
	}
	oldFence, err := s.old.Break(ctx, name, inOld)
	switch {
	case err != nil && inNext == 0, err != nil && !errors.Is(err, driver.ErrNotHeld) && !errors.Is(err, driver.ErrUnsupported):
		return 0, failures("break", err, nil)
	case inNext == 0:
		return oldFence, nil
	}
	return fence, nil
}

// target returns the tokens by which the stores know the claim that has a token, 0 where it is not held. The old
// store's token counts only for a claim that the next store has not got: of any other it is not shown.
func target(old, next []driver.Holder, token driver.Token) (inOld, inNext driver.Token) {
	has := func(h driver.Holder) bool { return h.Token > 0 && h.Token.Base() == token.Base() }
	if i := slices.IndexFunc(next, has); i >= 0 {
		if j := find(old, next[i]); j >= 0 {
			inOld = old[j].Token
		}
		return inOld, next[i].Token
	}
	for _, h := range old {
		if has(h) && find(next, h) < 0 {
			return h.Token, 0
		}
	}
	return 0, 0
}

// find returns where the same claim is in a list, or -1.
func find(holders []driver.Holder, h driver.Holder) int {
	return slices.IndexFunc(holders, func(o driver.Holder) bool {
		// Some stores do not keep the claim with a lock that is only kept.
		unnamed := o.Kept && (o.Claim.Session == driver.SessionID{} || h.Claim.Session == driver.SessionID{})
		return o.Kept == h.Kept && (o.Claim == h.Claim || unnamed)
	})
}
