// SPDX-License-Identifier: Apache-2.0

package lockview

import (
	"slices"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// EventKind says what happened to a lock between two polls.
type EventKind string

// The kinds.
const (
	// EventHeld: a client has the lock that had it not before.
	EventHeld EventKind = "held"
	// EventEnded: a holder has it no longer. Whether it was given back, lost or broken
	// cannot be seen from outside.
	EventEnded EventKind = "ended"
	// EventKept: the holder is gone, and the lock stays reserved.
	EventKept EventKind = "kept"
	// EventWaiting: a client joined the queue.
	EventWaiting EventKind = "waiting"
	// EventLeft: a client left the queue without the lock.
	EventLeft EventKind = "left"
)

// Event is one change of one lock.
type Event struct {
	Kind   EventKind       `json:"event"`
	Lock   string          `json:"lock,omitempty"`
	Owner  string          `json:"owner,omitempty"`
	Reason string          `json:"reason,omitempty"`
	Token  fencelock.Token `json:"token,omitempty,string"`
	// ForMS is how long it was held or waited for, by the store's clock, at the
	// last poll.
	ForMS int64 `json:"for_ms"`
	// Waiting is how many wait now.
	Waiting int `json:"waiting"`
}

// Changes compares two listings. Events come by lock; within one, what ended
// before what began. What came and went between the two polls is not seen.
func Changes(before, after []fencelock.Status) []Event {
	was, is := named(before), named(after)
	names := make([]string, 0, len(was)+len(is))
	for name := range was {
		names = append(names, name)
	}
	for name := range is {
		if was[name] == nil {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, strings.Compare)
	var all []Event
	empty := &fencelock.Status{}
	for _, name := range names {
		a, b := was[name], is[name]
		if a == nil {
			a = empty
		}
		if b == nil {
			b = empty
		}
		all = append(all, changesOf(name, a, b)...)
	}
	return all
}

func named(locks []fencelock.Status) map[string]*fencelock.Status {
	m := make(map[string]*fencelock.Status, len(locks))
	for i := range locks {
		m[locks[i].Name] = &locks[i]
	}
	return m
}

func changesOf(name string, a, b *fencelock.Status) []Event {
	var ended, began []Event
	for i := range a.Holders {
		h := &a.Holders[i]
		// Of many holders a store shows some, and the others may have been there all the time.
		if !h.Kept && b.MoreHolders == 0 && !slices.ContainsFunc(b.Holders, same(h)) {
			ended = append(ended, holding(EventEnded, name, h, b.Waiting))
		}
	}
	for i := range b.Holders {
		h := &b.Holders[i]
		if a.MoreHolders > 0 || slices.ContainsFunc(a.Holders, same(h)) {
			continue
		}
		kind := EventHeld
		if h.Kept {
			kind = EventKept
		}
		began = append(began, holding(kind, name, h, b.Waiting))
	}
	for i := range a.Waiters {
		w := &a.Waiters[i]
		gone := !slices.ContainsFunc(b.Waiters, func(o fencelock.Waiter) bool { return o.Claim == w.Claim })
		granted := slices.ContainsFunc(b.Holders, func(o fencelock.Holder) bool { return o.Claim == w.Claim })
		// Beyond what the store reports of a long queue nothing is known.
		if gone && !granted && len(b.Waiters) == b.Waiting {
			ended = append(ended, waiting(EventLeft, name, w, b.Waiting))
		}
	}
	for i := range b.Waiters {
		w := &b.Waiters[i]
		if !slices.ContainsFunc(a.Waiters, func(o fencelock.Waiter) bool { return o.Claim == w.Claim }) && len(a.Waiters) == a.Waiting {
			began = append(began, waiting(EventWaiting, name, w, b.Waiting))
		}
	}
	return append(ended, began...)
}

// same finds the same grant: one claim, and whether it is only kept.
func same(h *fencelock.Holder) func(fencelock.Holder) bool {
	return func(o fencelock.Holder) bool { return o.Claim == h.Claim && o.Token == h.Token && o.Kept == h.Kept }
}

func holding(kind EventKind, name string, h *fencelock.Holder, line int) Event {
	return Event{Kind: kind, Lock: name, Owner: h.Record.Owner, Reason: h.Record.Reason, Token: h.Token, ForMS: h.Age.Milliseconds(), Waiting: line}
}

func waiting(kind EventKind, name string, w *fencelock.Waiter, line int) Event {
	return Event{Kind: kind, Lock: name, Owner: w.Record.Owner, Reason: w.Record.Reason, ForMS: w.Age.Milliseconds(), Waiting: line}
}

// Renewals finds holders that do not renew, by comparing polls.
type Renewals struct {
	// most is how far away the end of each grant has been: about its TTL.
	most map[driver.ClaimID]time.Duration
}

// Note takes the result of a poll. It keeps nothing of grants that are gone.
func (r *Renewals) Note(locks []fencelock.Status) {
	most := map[driver.ClaimID]time.Duration{}
	for i := range locks {
		for _, h := range locks[i].Holders {
			most[h.Claim] = max(r.most[h.Claim], h.EndsIn)
		}
	}
	r.most = most
}

// Troubled reports whether a holder has not renewed for half of its TTL: one that
// lives does so after a third.
func (r *Renewals) Troubled(st *fencelock.Status) bool {
	return slices.ContainsFunc(st.Holders, func(h fencelock.Holder) bool { return !h.Kept && h.EndsIn < r.most[h.Claim]/2 })
}
