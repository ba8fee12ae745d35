// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
)

// The views are what -o json prints. Fields are only added. Durations are in
// milliseconds by the store's clock. Tokens are strings, because they exceed 2^53, and
// most readers of JSON round such numbers.

// lockView is a lock.
type lockView struct {
	Lock    string       `json:"lock"`
	State   string       `json:"state"` // free, held, kept, waited
	Holders []holderView `json:"holders"`
	Waiters []waiterView `json:"waiters"`
	Waiting int          `json:"waiting"`
	Limit   int64        `json:"limit,omitempty"`
	GraceMS int64        `json:"grace_ms,omitempty"`
}

// holderView is a holder.
type holderView struct {
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

// waiterView is a claim in the queue.
type waiterView struct {
	Owner   string            `json:"owner"`
	Reason  string            `json:"reason,omitempty"`
	Mode    string            `json:"mode"`
	Weight  int64             `json:"weight,omitempty"`
	AgeMS   int64             `json:"age_ms"`
	Labels  map[string]string `json:"labels,omitempty"`
	Session string            `json:"session,omitempty"`
}

func lockOf(st fencelock.Status) lockView {
	v := lockView{Lock: st.Name, State: stateOf(&st), Holders: []holderView{}, Waiters: []waiterView{}, Waiting: st.Waiting,
		Limit: st.Limit, GraceMS: st.Grace.Milliseconds()}
	for i := range st.Holders {
		v.Holders = append(v.Holders, *holderOf(&st.Holders[i]))
	}
	for _, w := range st.Waiters {
		v.Waiters = append(v.Waiters, waiterView{Owner: w.Record.Owner, Reason: w.Record.Reason, Mode: w.Mode.String(), Weight: w.Weight,
			AgeMS: w.Age.Milliseconds(), Labels: w.Record.Labels, Session: w.Claim.Session.String()})
	}
	return v
}

func holderOf(h *fencelock.Holder) *holderView {
	if h == nil {
		return nil
	}
	return &holderView{
		Owner: h.Record.Owner, Reason: h.Record.Reason, Token: h.Token, Mode: h.Mode.String(), Weight: h.Weight,
		AgeMS: h.Age.Milliseconds(), EndsInMS: h.EndsIn.Milliseconds(), Kept: h.Kept, LingerMS: h.Linger.Milliseconds(),
		Trace: h.Record.Trace, Labels: h.Record.Labels, Session: h.Claim.Session.String(),
	}
}

// guaranteesView is what the store promises.
type guaranteesView struct {
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

func guaranteesOf(g fencelock.Guarantees) *guaranteesView {
	return &guaranteesView{Fencing: g.Fencing.String(), SurvivesCrash: g.SurvivesCrash, Grace: g.Grace, Fair: g.Fair, Push: g.Push,
		TTLMS: g.TTL.Milliseconds(), NoticeMS: g.Notified.Milliseconds(), Drift: g.Drift, Assumes: withoutGo(g.Assumes), Advice: withoutGo(g.Advice)}
}

// stateOf is the state of a lock in one word.
func stateOf(st *fencelock.Status) string {
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

// oldest is the age of the first holder, 0 without a holder.
func oldest(st *fencelock.Status) time.Duration {
	var age time.Duration
	for i := range st.Holders {
		age = max(age, st.Holders[i].Age)
	}
	return age
}

// holdersInShort names the first holder and counts the others.
func holdersInShort(st *fencelock.Status) string {
	switch n := len(st.Holders); {
	case n == 0:
		return "-"
	case n == 1:
		return st.Holders[0].Record.Owner
	default:
		return fmt.Sprintf("%s +%d", st.Holders[0].Record.Owner, n-1)
	}
}

// graceLine explains why a lock that is not held is not granted.
func graceLine(left time.Duration) string {
	return "the store is new or was reset; no new locks for " + short(left) + " (grace period)"
}

// short writes a duration for people: the two largest units that matter.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", max(d, 0).Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}
