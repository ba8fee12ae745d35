// SPDX-License-Identifier: Apache-2.0

// Package lockview has what the commands and the server show of locks, and what an operator
// does with one: break it.
//
//	view.go       a lock as JSON, and whether a store is fit to keep locks
//	changes.go    what happened between polls
//	selection.go  which locks, in which order
package lockview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
	"github.com/fencelock/fencelock/driver"
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

// Findings checks the servers of a store and its guarantees. What is missing for
// correctness is a danger if correctness is asked for, otherwise a note. graceFix is how
// to make the store keep locks over a data loss, "" if it cannot.
func Findings(ctx context.Context, store driver.Store, g fencelock.Guarantees, graceFix string, correctness bool) []driver.Finding {
	all := []driver.Finding{}
	if checker, ok := store.(driver.Checker); ok {
		found, err := checker.Check(ctx)
		all = append(all, found...)
		if err != nil { // a server did not answer; the findings of the others stand
			all = append(all, driver.Finding{Severity: driver.Warning, Code: "unreachable", Reason: "a server could not be checked: " + err.Error(),
				Fix: "start it; if only this machine does not reach it, check the network"})
		}
	} else {
		all = append(all, driver.Finding{Severity: driver.Note, Code: "unchecked", Reason: "this store cannot check its server"})
	}
	for _, f := range unfit(g, graceFix) {
		if !correctness {
			f.Severity = driver.Note
		}
		all = append(all, f)
	}
	return all
}

// PlainFindings leaves out of findings what is for Go programs.
func PlainFindings(findings []driver.Finding) {
	for i, f := range findings {
		findings[i].Reason, findings[i].Fix = text.Plain(f.Reason), text.Plain(f.Fix)
	}
}

// unfit says what is missing where doing the work twice would corrupt something.
func unfit(g fencelock.Guarantees, graceFix string) []driver.Finding {
	var found []driver.Finding
	if g.Fencing != driver.Strict {
		found = append(found, driver.Finding{Severity: driver.Danger, Code: "fencing", Reason: "tokens are not strict: they are " + g.Fencing.String(), Fix: "use another store"})
	}
	if !g.SurvivesCrash {
		fix := graceFix
		if fix == "" {
			fix = "use another store, or check the token wherever something is written"
		}
		found = append(found, driver.Finding{Severity: driver.Danger, Code: "data-loss",
			Reason: "a crash or failover of the server may lose the holder of a lock, and another client may acquire the lock while it is held", Fix: fix})
	}
	return found
}

// BreakRequest is what an operator asks for. Token is that of the holder, so that a lease
// that began later is not hit.
type BreakRequest struct {
	Token  fencelock.Token
	Reason string
	By     string
}

// Broken is what was done.
type Broken struct {
	Time   time.Time       `json:"time"`
	Lock   string          `json:"lock"`
	Token  fencelock.Token `json:"token,string"`
	Fence  fencelock.Token `json:"fence,string"`
	Holder *Holder         `json:"holder,omitempty"`
	By     string          `json:"by"`
	Reason string          `json:"reason"`
}

// ErrGrace: the store was reset, and the holder that it shows may be stale.
var ErrGrace = errors.New("the store was reset, and the holder that it shows may be one from before")

// Break breaks the lease of a lock that was inspected just before. It returns ErrGrace during
// a grace period, and fencelock.ErrNotHeld if no holder has the token; nothing was done then.
func Break(ctx context.Context, c *fencelock.Client, st *fencelock.Status, r BreakRequest) (*Broken, error) {
	if st.Grace > 0 {
		return nil, fmt.Errorf("%s: %w; wait %s", st.Name, ErrGrace, text.Short(st.Grace))
	}
	done := &Broken{Time: time.Now(), Lock: st.Name, Token: r.Token, By: r.By, Reason: r.Reason}
	at := slices.IndexFunc(st.Holders, func(h fencelock.Holder) bool { return h.Token.Base() == r.Token.Base() })
	if at >= 0 {
		done.Holder = HolderOf(&st.Holders[at])
	}
	fence, err := c.ForceUnlock(ctx, st.Name, r.Token)
	if err != nil {
		return nil, err
	}
	done.Fence = fence
	return done, nil
}
