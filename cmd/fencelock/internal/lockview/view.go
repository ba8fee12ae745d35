// SPDX-License-Identifier: Apache-2.0

// Package lockview has what the commands and the server show of locks, and what an operator
// does with one: break it.
//
//	view.go       a lock as JSON               selection.go  which locks, in which order
//	changes.go    what happened between polls  findings.go   whether a store is fit to keep locks
package lockview

import (
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
)

// The views are what -o json and the server print. Fields are only added. Durations are in
// milliseconds by the store's clock. Tokens are strings, because they exceed 2^53, and
// most readers of JSON round such numbers.

// Lock is a lock.
type Lock struct {
	Lock    string   `json:"lock"`
	State   string   `json:"state"` // free, held, kept, waited
	Holders []Holder `json:"holders"`
	// MoreHolders is how many the store left out.
	MoreHolders int      `json:"more_holders,omitempty"`
	Waiters     []Waiter `json:"waiters"`
	Waiting     int      `json:"waiting"`
	Limit       int64    `json:"limit,omitempty"`
	GraceMS     int64    `json:"grace_ms,omitempty"`
}

// Holder is a holder.
type Holder struct {
	Owner    string            `json:"owner"`
	Reason   string            `json:"reason,omitempty"`
	Token    fencelock.Token   `json:"token,omitempty,string"`
	Mode     string            `json:"mode"`
	Weight   int64             `json:"weight,omitempty"`
	AgeMS    int64             `json:"age_ms"`
	EndsInMS int64             `json:"ends_in_ms"`
	Kept     bool              `json:"kept,omitempty"`
	LingerMS int64             `json:"linger_ms,omitempty"`
	Trace    string            `json:"trace,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Session  string            `json:"session,omitempty"`
}

// Waiter is a claim in the queue.
type Waiter struct {
	Owner   string            `json:"owner"`
	Reason  string            `json:"reason,omitempty"`
	Mode    string            `json:"mode"`
	Weight  int64             `json:"weight,omitempty"`
	AgeMS   int64             `json:"age_ms"`
	Labels  map[string]string `json:"labels,omitempty"`
	Session string            `json:"session,omitempty"`
}

func LockOf(st fencelock.Status) Lock {
	v := Lock{Lock: st.Name, State: State(&st), Holders: []Holder{}, MoreHolders: st.MoreHolders, Waiters: []Waiter{}, Waiting: st.Waiting,
		Limit: st.Limit, GraceMS: st.Grace.Milliseconds()}
	for i := range st.Holders {
		v.Holders = append(v.Holders, *HolderOf(&st.Holders[i]))
	}
	for _, w := range st.Waiters {
		v.Waiters = append(v.Waiters, Waiter{Owner: w.Record.Owner, Reason: w.Record.Reason, Mode: w.Mode.String(), Weight: w.Weight,
			AgeMS: w.Age.Milliseconds(), Labels: w.Record.Labels, Session: w.Claim.Session.String()})
	}
	return v
}

func HolderOf(h *fencelock.Holder) *Holder {
	if h == nil {
		return nil
	}
	return &Holder{
		Owner: h.Record.Owner, Reason: h.Record.Reason, Token: h.Token, Mode: h.Mode.String(), Weight: h.Weight,
		AgeMS: h.Age.Milliseconds(), EndsInMS: h.EndsIn.Milliseconds(), Kept: h.Kept, LingerMS: h.Linger.Milliseconds(),
		Trace: h.Record.Trace, Labels: h.Record.Labels, Session: h.Claim.Session.String(),
	}
}

// Guarantees is what the store promises.
type Guarantees struct {
	Fencing       string  `json:"fencing"`
	SurvivesCrash bool    `json:"survives_crash"`
	Grace         bool    `json:"grace"`
	Fair          bool    `json:"fair"`
	Push          bool    `json:"push"`
	TTLMS         int64   `json:"ttl_ms"`
	NoticeMS      int64   `json:"notice_ms"` // a holder is notified so long before another can acquire
	Drift         float64 `json:"drift"`
	Assumes       string  `json:"assumes,omitempty"`
	Advice        string  `json:"advice,omitempty"`
}

func GuaranteesOf(g fencelock.Guarantees) *Guarantees {
	return &Guarantees{Fencing: g.Fencing.String(), SurvivesCrash: g.SurvivesCrash, Grace: g.Grace, Fair: g.Fair, Push: g.Push,
		TTLMS: g.TTL.Milliseconds(), NoticeMS: g.Notified.Milliseconds(), Drift: g.Drift, Assumes: text.Plain(g.Assumes), Advice: text.Plain(g.Advice)}
}

// State is the state of a lock in one word.
func State(st *fencelock.Status) string {
	switch {
	case len(st.Holders) > 0 && st.Holders[0].Kept:
		return "kept"
	case len(st.Holders) > 0:
		return "held"
	case st.Waiting > 0:
		return "waited"
	}
	return "free"
}

// Oldest is the age of the first holder, 0 without a holder.
func Oldest(st *fencelock.Status) time.Duration {
	var age time.Duration
	for i := range st.Holders {
		age = max(age, st.Holders[i].Age)
	}
	return age
}

// Owners names the first holder and counts the others.
func Owners(st *fencelock.Status) string {
	switch n := len(st.Holders) + st.MoreHolders; {
	case n == 0:
		return "-"
	case n == 1:
		return st.Holders[0].Record.Owner
	default:
		return fmt.Sprintf("%s +%d", st.Holders[0].Record.Owner, n-1)
	}
}

// GraceLine explains why a lock that is not held is not granted.
func GraceLine(left time.Duration) string {
	return "the store is new or was reset; no new locks for " + text.Short(left) + " (grace period)"
}

// EndsNext is when the first holder that lives ends unless it is renewed.
func EndsNext(st *fencelock.Status) time.Duration {
	next := time.Duration(1<<63 - 1)
	for i := range st.Holders {
		if !st.Holders[i].Kept {
			next = min(next, st.Holders[i].EndsIn)
		}
	}
	return next
}

// Waited is how long the first waiter has waited.
func Waited(st *fencelock.Status) time.Duration {
	var age time.Duration
	for i := range st.Waiters {
		age = max(age, st.Waiters[i].Age)
	}
	return age
}

// Clean is a lock with everything cleaned.
func Clean(st fencelock.Status) fencelock.Status {
	st.Name = text.Clean(st.Name)
	holders, waiters := st.Holders, st.Waiters
	st.Holders, st.Waiters = nil, nil
	for _, h := range holders {
		h.Record = cleanRecord(h.Record)
		st.Holders = append(st.Holders, h)
	}
	for _, w := range waiters {
		w.Record = cleanRecord(w.Record)
		st.Waiters = append(st.Waiters, w)
	}
	return st
}

func cleanRecord(r fencelock.Record) fencelock.Record {
	r.Owner, r.Reason, r.Trace = text.Clean(r.Owner), text.Clean(r.Reason), text.Clean(r.Trace)
	labels := r.Labels
	r.Labels = nil
	for key, value := range labels {
		if r.Labels == nil {
			r.Labels = map[string]string{}
		}
		r.Labels[text.Clean(key)] = text.Clean(value)
	}
	return r
}

// CleanAll cleans a listing.
func CleanAll(locks []fencelock.Status) []fencelock.Status {
	for i := range locks {
		locks[i] = Clean(locks[i])
	}
	return locks
}
