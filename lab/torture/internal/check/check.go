// SPDX-License-Identifier: Apache-2.0

// Package check judges a history and reports what is wrong with it. Every checker
// is a pure function, linear or nearly so, and explains each violation in words.
//
//	D1  tokens are unique                                        F
//	D2  an acquisition asked for after another was granted       F
//	    has a greater token; T for a lock that lingered and
//	    whose client had not heard yet that its data is lost
//	D4  the resource lets in tokens that never fall, and one     F
//	    client per token
//	D5  every acknowledged append is there, once, and every      F
//	    list continues the one before
//	D3  the trusted times of two holders do not overlap, and     T
//	    no holder is refused in its own
//	D7  a holder is notified by its deadline, before the lock    N
//	    is granted to another
//	D6  a lock that is free, or whose holder is gone, is         L, W
//	    granted to a waiter
//	D8  turns are given in the order of asking                   O
//
// D6 is two: not stuck (L) counts from the end of a fault, no lost wake-up (W)
// from a release, or from the end of what a fault excuses if that is later. U is
// D5 of the register without a guard: it is measured, never promised.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fencelock/fencelock/lab/torture/internal/history"
)

// Property is what a checker is about.
type Property string

// The properties: fenced effects are exclusive; exclusion in time; holders are
// notified; not stuck; no lost wake-up; order; and the register without a guard.
const (
	F Property = "F"
	T Property = "T"
	N Property = "N"
	L Property = "L"
	W Property = "W"
	O Property = "O"
	U Property = "U"
)

// Properties are all of them, in the order of importance.
var Properties = []Property{F, L, W, T, N, O, U}

// Violation is one thing that must not be.
type Violation struct {
	// Check is D1 to D8.
	Check    string   `json:"check"`
	Property Property `json:"property"`
	// At is when, on the clock of the history.
	At   int64  `json:"at"`
	Text string `json:"text"`
}

func (v Violation) String() string { return fmt.Sprintf("%s (%s): %s", v.Check, v.Property, v.Text) }

// Limits are the times that the checkers allow. They are far above what happens
// on an idle machine.
type Limits struct {
	// Stuck is how long after the end of a fault a lock with live waiters may
	// stay without a grant.
	Stuck time.Duration
	// Starve is how long one client may wait while others are served.
	Starve time.Duration
	// Wake is how long after a release it may.
	Wake time.Duration
	// Notified is how late after its deadline a running holder may be notified.
	Notified time.Duration
	// Late is how late after the grant to another it may be notified: a timer of a
	// busy machine fires late. A grant in its trusted time is D3, without excuse.
	Late time.Duration
	// Overtake is how much later a client may have asked that comes first.
	Overtake time.Duration
}

// Run runs all checkers on a history in the order of its clock.
func Run(events []history.Event, lim Limits) []Violation {
	hs := holds(events)
	var vs []Violation
	vs = append(vs, Unique(hs)...)
	vs = append(vs, Rising(hs)...)
	vs = append(vs, Disjoint(hs, events)...)
	vs = append(vs, Admitted(events)...)
	vs = append(vs, Kept(events)...)
	vs = append(vs, Served(events, lim)...)
	vs = append(vs, Notified(hs, events, lim)...)
	vs = append(vs, Ordered(events, lim)...)
	slices.SortStableFunc(vs, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	return vs
}

// Count counts the violations of each property.
func Count(vs []Violation) map[Property]int {
	n := map[Property]int{}
	for _, v := range vs {
		n[v.Property]++
	}
	return n
}

// hold is one acquisition that was granted.
type hold struct {
	who, lock string
	token     int64
	ask       int64
	grant     int64
	// end is when it trusted itself no more: released, notified, at its deadline,
	// or killed.
	end int64
	// notified and release are 0 if there was none; until is the last deadline known.
	notified, release, until int64
	// relocked is set if the lock lingered, and the store was not asked for it.
	relocked bool
}

func (h *hold) String() string { return fmt.Sprintf("%s with token %d of %s", h.who, h.token, h.lock) }

// holds pairs up the events of each client; a client does one thing at a time.
func holds(events []history.Event) []*hold {
	var all []*hold
	fs := faults(events)
	asked, open := map[string]int64{}, map[string]*hold{}
	type place struct{ who, lock string }
	lingers := map[place]int64{} // the token of a lock that its last holder has kept
	for _, e := range events {
		h, at := open[e.Who], place{e.Who, e.Lock}
		if h != nil {
			h.until = max(h.until, e.Until)
		}
		switch e.Kind {
		case history.Ask:
			asked[e.Who] = e.At
		case history.Grant:
			before, kept := lingers[at]
			h = &hold{who: e.Who, lock: e.Lock, token: e.Token, ask: asked[e.Who], grant: e.At, until: e.Until, relocked: kept && e.Token == before+1}
			delete(lingers, at)
			open[e.Who] = h
			all = append(all, h)
		case history.Lost:
			if h != nil && h.token == e.Token {
				h.notified = e.At
			}
		case history.Release:
			if h != nil {
				h.release = e.At
				delete(open, e.Who)
			}
		case history.Released:
			if e.Idle {
				lingers[at] = e.Token
			}
		case history.Killed:
			if h != nil {
				// A holder that runs renews until it is killed, and no event records how
				// far. One that was stopped did not: what it said before is all there is.
				if !rested(fs, e.Who, h.grant, e.At) {
					h.until = e.At
				}
				h.release = e.At
				delete(open, e.Who)
			}
		}
	}
	for _, h := range all {
		h.end = h.over()
	}
	return all
}

// over is the first of what ends its trust.
func (h *hold) over() int64 {
	first := h.until
	for _, t := range []int64{h.notified, h.release} {
		if t != 0 {
			first = min(first, t)
		}
	}
	return first
}

// fault is when a fault was under way.
type fault struct {
	who         string
	from, until int64
	// after is when its consequences are over too.
	after int64
}

// faults pairs up the beginnings and the ends. One without an end lasts.
func faults(events []history.Event) []fault {
	var fs []fault
	open := map[string]int{}
	for _, e := range events {
		switch e.Kind {
		case history.Fault:
			open[e.Text] = len(fs)
			fs = append(fs, fault{who: e.Who, from: e.At, until: 1<<63 - 1, after: 1<<63 - 1})
		case history.Healed:
			if i, ok := open[e.Text]; ok {
				fs[i].until, fs[i].after = e.At, max(e.At, e.Until)
				delete(open, e.Text)
			}
		}
	}
	return fs
}

// rested reports whether a client was stopped, and went on, in an interval.
func rested(fs []fault, who string, from, to int64) bool {
	for _, f := range fs {
		if f.who == who && f.until > from && f.until <= to {
			return true
		}
	}
	return false
}

// seconds prints an interval for people.
func seconds(ns int64) string { return time.Duration(ns).Round(time.Millisecond).String() }
