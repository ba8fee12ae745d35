// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// outcome returns where a claim stands. e is nil if it is not in the store.
func (sh *shard) outcome(l *lock, e *entry, now time.Time) driver.Outcome {
	if e != nil && e.granted {
		out := driver.Outcome{State: driver.Granted, Token: e.token}
		if !e.maxEnd.IsZero() {
			out.Remaining = e.maxEnd.Sub(now)
		}
		return out
	}
	out := driver.Outcome{State: driver.Busy}
	if e != nil {
		out.State, out.Position = driver.Queued, slices.Index(l.queue, e)
	}
	for _, g := range l.grants {
		if len(out.Holders) < driver.MaxHoldersReported {
			out.Holders = append(out.Holders, g.holder(now))
		}
	}
	if rest := sh.grace(now); rest > 0 {
		out.Grace, out.PollAfter = true, rest
		return out
	}
	out.PollAfter = driver.PollAfter(l.soonestEnd(now), out.Position)
	return out
}

// soonestEnd is when the first of those who have the lock must have ended.
func (l *lock) soonestEnd(now time.Time) time.Duration {
	var soonest time.Duration
	for i, g := range l.grants {
		if d := g.endsIn(now); i == 0 || d < soonest {
			soonest = d
		}
	}
	return soonest
}

func (e *entry) endsIn(now time.Time) time.Duration {
	var end time.Time
	if e.live != nil {
		end = e.live.end
	}
	if e.minEnd.After(end) {
		end = e.minEnd
	}
	if !e.maxEnd.IsZero() && (e.live == nil || e.maxEnd.Before(end)) {
		end = e.maxEnd
	}
	return max(0, end.Sub(now))
}

func (e *entry) id() driver.ClaimID {
	id := driver.ClaimID{Seq: e.claim.Seq}
	if e.live != nil {
		id.Session = e.live.id
	}
	return id
}

func (e *entry) holder(now time.Time) driver.Holder {
	t := e.claim.Terms
	return driver.Holder{
		Claim:   e.id(),
		Token:   e.token,
		Mode:    t.Mode,
		Weight:  t.Weight,
		Reentry: t.Reentry,
		Linger:  t.Linger,
		Record:  copied(t.Record),
		Age:     now.Sub(e.since),
		EndsIn:  e.endsIn(now),
		Kept:    e.live == nil,
	}
}

// copied returns a record that the caller may change.
func copied(r *driver.Record) driver.Record {
	rec := *r
	rec.Labels = maps.Clone(r.Labels)
	return rec
}

func (l *lock) status(now time.Time) driver.Status {
	st := driver.Status{Waiting: len(l.queue)}
	for _, g := range l.grants {
		st.Holders = append(st.Holders, g.holder(now))
	}
	for _, e := range l.queue[:min(len(l.queue), driver.MaxWaitersReported)] {
		t := e.claim.Terms
		st.Waiters = append(st.Waiters, driver.Waiter{
			Claim: e.id(), Mode: t.Mode, Weight: t.Weight, Record: copied(t.Record), Age: now.Sub(e.since),
		})
	}
	return st
}

// List implements driver.Store. The cursor is the shard and the last name shown, so a
// lock that is added or removed between two pages does not shift the others.
func (s *Store) List(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	if err := ctx.Err(); err != nil {
		return driver.Page{}, ended("list", err)
	}
	first, after, _ := strings.Cut(q.Cursor, " ")
	from, _ := strconv.Atoi(first)
	var page driver.Page
	for i := from; i < len(s.shards); i++ {
		names := s.shards[i].names(q.Prefix, after)
		after = ""
		for _, name := range names {
			if len(page.Locks) == q.Max {
				last := page.Locks[len(page.Locks)-1].Name
				page.Next = strconv.Itoa(i) + " "
				if s.Shard(last) == strconv.Itoa(i) {
					page.Next += last
				}
				return page, nil
			}
			if st, err := s.Inspect(ctx, name); err != nil {
				return driver.Page{}, err
			} else if len(st.Holders) > 0 || st.Waiting > 0 {
				page.Locks = append(page.Locks, st)
			}
		}
	}
	return page, nil
}

// names returns the names of a shard after one, in order.
func (sh *shard) names(prefix, after string) []string {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var names []string
	for name := range sh.locks {
		if strings.HasPrefix(name, prefix) && (after == "" || name > after) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
