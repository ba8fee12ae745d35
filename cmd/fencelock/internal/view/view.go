// SPDX-License-Identifier: Apache-2.0

// Package view has what the commands and the server show of locks.
package view

import (
	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/plain"
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
		TTLMS: g.TTL.Milliseconds(), NoticeMS: g.Notified.Milliseconds(), Drift: g.Drift, Assumes: plain.WithoutGo(g.Assumes), Advice: plain.WithoutGo(g.Advice)}
}
