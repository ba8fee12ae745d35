// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/lab/torture/internal/check"
	"github.com/fencelock/fencelock/lab/torture/internal/history"
	"github.com/fencelock/fencelock/lab/torture/internal/linear"
)

// stallLimit is how late a timer of the suite may be. Beyond it the limits of
// the checkers would measure the machine.
const stallLimit = 400 * time.Millisecond

// Judge decides on a cell from what was written down: a pure function, so that
// it can be tested with histories made by hand.
//
// Where two servers may grant at the same time, their tokens are not in the order
// of time: the one that was replaced gives lower ones, and the guard refuses them.
// There D2, and Porcupine, which sees the same, are about exclusion in time. What
// the guard let in, D4 and D5, is about effects in every cell.
//
// stuck is what the run saw of a client that is not served. D6 says what is wrong if
// the history shows it; a client that crashed, or hangs in a call, shows nothing there.
func Judge(c Cell, events []history.Event, stall time.Duration, stuck error) Result {
	vs := check.Run(events, c.Limits())
	split := c.Deployment.Split(c.Fault)
	for i, v := range vs {
		if v.Check == "D2" && split {
			vs[i].Property = check.T
		}
	}
	counts, pictures := check.Count(vs), map[string][]byte{}
	found, undecided := linear.Check(events)
	for _, f := range found {
		if split {
			f.Property = check.T
		}
		vs = append(vs, f.Violation)
		pictures[f.Leases] = f.Picture                  // in a split both are about T
		counts[f.Property] = max(counts[f.Property], 1) // what the others counted is the same
	}
	r := Result{Deployment: c.Deployment.Name, Fault: c.Fault.Name, Seed: c.Seed, Plan: c.Plan.String(),
		Events: events, Must: Must(c.Deployment, c.Fault), Violations: vs, Counts: counts, Pictures: pictures, Undecided: undecided}
	for _, e := range events {
		switch e.Kind {
		case history.Grant:
			r.Grants++
		case history.Refused:
			r.Refused++
		}
	}
	var broken, allowed []string
	for _, p := range check.Properties {
		switch n := r.Counts[p]; {
		case n == 0:
		case slices.Contains(r.Must, p):
			broken = append(broken, fmt.Sprintf("%s %d times", p, n))
		case p == check.T || p == check.N || p == check.U:
			// Overtaking after a fault is no failure: a client that lost its position asks again.
			allowed = append(allowed, fmt.Sprintf("%s %d times", p, n))
		}
	}
	switch why := unknown(c, events); {
	case r.Counts[check.F] > 0:
		r.Status, r.Reason = Failed, strings.Join(broken, ", ")
	case stall > stallLimit:
		r.Status, r.Reason = NotRun, fmt.Sprintf("the machine stalled for %v, so nothing is known about time", stall.Round(time.Millisecond))
	case len(broken) > 0:
		r.Status, r.Reason = Failed, strings.Join(broken, ", ")
	case stuck != nil:
		r.Status, r.Reason = Failed, "L: "+stuck.Error()
	case why != "":
		r.Status, r.Reason = NotRun, why
	case len(allowed) > 0:
		r.Status, r.Reason = Allowed, "failed: "+strings.Join(allowed, ", ")
	default:
		r.Status = Held
	}
	return r
}

// unknown says what a history without a violation does not show, because nothing
// happened that could have gone wrong; "" if it shows all that must hold.
func unknown(c Cell, events []history.Event) string {
	granted, fenced, wrote := false, false, false
	for _, e := range events {
		granted = granted || e.Kind == history.Grant
		fenced = fenced || e.Kind == history.Grant && e.Token != 0 // without a token there is nothing to show to a guard
		wrote = wrote || e.Kind == history.Wrote && e.Register == history.Fenced
	}
	switch {
	case !granted:
		return "no client was ever granted the lock"
	case unfinished(events):
		return "the resource did not report its lists at the end, so what they kept is unknown"
	case fenced && !wrote:
		return "no fenced write was acknowledged, so nothing is known about fenced effects (F)"
	case check.Handoffs(events) == 0:
		return "the lock never went from one client to one who waited after the last fault and its consequences, so nothing is known about wake-ups (W)"
	case c.Linger && c.Deployment.Lingers:
		return unlingered(events)
	}
	return ""
}

// unlingered says what a history without a violation does not show of locks that linger: "" if
// some were locked again without a round trip, and some went to another client. Such a lock
// has a token that is not the first of its grant.
func unlingered(events []history.Event) string {
	again, gave := false, false
	last := map[string]history.Event{}
	for _, e := range events {
		if e.Kind != history.Grant {
			continue
		}
		same := last[e.Lock].Who == e.Who
		again = again || same && e.Token%driver.TokenStep != 0
		gave = gave || last[e.Lock].Who != "" && !same
		last[e.Lock] = e
	}
	switch {
	case !again:
		return "no lock was locked again without a round trip, so nothing is known about locks that linger"
	case !gave:
		return "no lock went to another client, so nothing is known about recalls"
	}
	return ""
}

// unfinished reports whether a list that was written, or every one, is without its
// last state: then D5 had nothing to compare the acknowledged values with.
func unfinished(events []history.Event) bool {
	type key struct{ register, lock string }
	final := map[key]bool{}
	for _, e := range events {
		if e.Kind == history.Final {
			final[key{e.Register, e.Lock}] = true
		}
	}
	for _, e := range events {
		if e.Kind == history.Wrote && !final[key{e.Register, e.Lock}] {
			return true
		}
	}
	return len(final) == 0
}
