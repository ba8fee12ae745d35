// SPDX-License-Identifier: Apache-2.0

package both

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/fencelock/fencelock/driver"
)

// Inspect implements driver.Store. It shows what is in the way of a claim in either store: a
// claim that both have granted once, with the new store's token, and those of processes in phase old or new.
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
	var halfway []driver.Waiter
	for _, h := range old.Holders {
		at := find(st.Holders, h)
		switch {
		case at >= 0:
			st.Holders[at].EndsIn = min(st.Holders[at].EndsIn, h.EndsIn)
		case waits(next, h.Claim):
		case excluded(next.Holders, h):
			halfway = append(halfway, driver.Waiter{Claim: h.Claim, Mode: h.Mode, Weight: h.Weight, Record: h.Record, Age: h.Age})
		default:
			st.Holders = append(st.Holders, h)
		}
	}
	st.MoreHolders = max(old.MoreHolders, next.MoreHolders)
	st.Waiters = slices.Concat(next.Waiters, halfway, old.Waiters)
	st.Waiters = st.Waiters[:min(len(st.Waiters), driver.MaxWaitersReported)]
	st.Waiting = next.Waiting + len(halfway) + old.Waiting
	st.Grace = max(old.Grace, next.Grace)
	if st.Limit == 0 {
		st.Limit = old.Limit
	}
	return st
}

// waits reports whether a claim that holds the old lock is shown as a waiter for the new one.
func waits(st driver.Status, id driver.ClaimID) bool {
	return slices.ContainsFunc(st.Waiters, func(w driver.Waiter) bool { return w.Claim == id })
}

// excluded reports whether a claim that holds the old lock cannot hold the new one beside its holders. It then waits for
// the new lock, in a store that does not show it, and its token is not one of the new store.
func excluded(holders []driver.Holder, h driver.Holder) bool {
	return !h.Kept && slices.ContainsFunc(holders, func(o driver.Holder) bool {
		joined := h.Reentry != "" && h.Reentry == o.Reentry
		return o.Kept || !joined && (o.Mode == driver.Exclusive || h.Mode == driver.Exclusive)
	})
}

// cursors of a listing begin with the store that is read.
const (
	readsNext = "next "
	readsOld  = "old "
)

// List implements driver.Store: the locks of the new store, then those that only the old store has.
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

// listNext lists what the new store has, with what the old store shows of it.
func (s *Store) listNext(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	page, err := s.next.List(ctx, q)
	if err != nil {
		return driver.Page{}, failures("list", nil, err)
	}
	old, err := inspectAll(ctx, s.old, page.Locks)
	if err != nil {
		return driver.Page{}, failures("list", err, nil)
	}
	for i, st := range page.Locks {
		page.Locks[i] = merged(old[i], st)
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
	next, err := inspectAll(ctx, s.next, page.Locks)
	if err != nil {
		return driver.Page{}, failures("list", nil, err)
	}
	kept := page.Locks[:0]
	for i, st := range page.Locks {
		if len(next[i].Holders) == 0 && next[i].Waiting == 0 {
			kept = append(kept, merged(st, next[i]))
		}
	}
	page.Locks = kept
	if page.Next != "" {
		page.Next = readsOld + page.Next
	}
	return page, nil
}

// inspectsAtOnce is how many locks of a page are inspected at once.
const inspectsAtOnce = 8

// inspectAll returns the locks of a page as another store shows them.
func inspectAll(ctx context.Context, store driver.Store, page []driver.Status) ([]driver.Status, error) {
	found, errs := make([]driver.Status, len(page)), make([]error, len(page))
	slots := make(chan struct{}, inspectsAtOnce)
	var all sync.WaitGroup
	for i, st := range page {
		slots <- struct{}{}
		all.Go(func() {
			found[i], errs[i] = store.Inspect(ctx, st.Name)
			<-slots
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// find returns where the same claim is in a list, or -1.
func find(holders []driver.Holder, h driver.Holder) int {
	return slices.IndexFunc(holders, func(o driver.Holder) bool {
		// Some stores do not keep the claim with a lock that is only kept.
		unnamed := o.Kept && (o.Claim.Session == driver.SessionID{} || h.Claim.Session == driver.SessionID{})
		return o.Kept == h.Kept && (o.Claim == h.Claim || unnamed)
	})
}
