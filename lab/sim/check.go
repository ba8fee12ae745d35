// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"

	"github.com/fencelock/fencelock/driver"
)

// Checker judges a history. It is a function of the history alone.
type Checker struct {
	Name string
	// Property is what must hold, in one sentence.
	Property string
	check    func(*view, complain)
}

// complain reports a violation. The acquisitions are those involved.
type complain func(involved []*acq, format string, args ...any)

// Checkers are all there are, in the order in which they are asked: those that
// explain most come first.
var Checkers = []Checker{
	{"leak", "a closed client leaves no goroutine and no lease behind", checkLeak},
	{"spin", "no client calls the store without a pause", checkSpin},
	{"tokens", "tokens are unique and rise in real time", checkTokens},
	{"fence", "writes under tokens do not interleave, and a holder in time is not refused", checkFence},
	{"overlap", "a holder is notified before another gets the lock", checkOverlap},
	{"once", "an occurrence that has run is not run again", checkOnce},
	{"notice", "a client ends a session at once that the store has ended or refuses to renew", checkNotice},
	{"election", "terms never go back, and an election ends for a reason", checkElection},
	{"survive", "a client that nothing was in the way of loses nothing", checkSurvive},
	{"answers", "an error states what was the case", checkAnswers},
	{"stuck", "when the faults are over every lock is had within the bound", checkStuck},
	{"wakeup", "no lock is free while a client waits for it", checkWakeup},
	{"fifo", "turns are in the order of arrival", checkFIFO},
	{"left", "the store keeps nothing that no live client owns", checkLeft},
}

// Violation is what a checker found.
type Violation struct {
	Checker string
	What    string
	Events  []Event // of the acquisitions involved
}

// maxPerChecker bounds how much one checker says about one history: the rest
// are consequences.
const maxPerChecker = 3

// Check asks all checkers.
func Check(h *History) (found []Violation) {
	v := newView(h)
	for _, c := range Checkers {
		n := 0
		c.check(v, func(involved []*acq, format string, args ...any) {
			n++
			if n <= maxPerChecker {
				found = append(found, Violation{c.Name, fmt.Sprintf(format, args...), v.events(involved)})
			}
		})
	}
	return found
}

// events returns the events of some acquisitions, in order.
func (v *view) events(of []*acq) (out []Event) {
	ids := map[int]bool{}
	for _, a := range of {
		ids[a.call.Acq] = true
	}
	for _, e := range v.h.Events {
		if ids[e.Acq] {
			out = append(out, e)
		}
	}
	return out
}

// checkElection: what an observer sees of the terms never goes back, and a kept
// lock is no leader; Run ends for a reason that it was given; and Resign returns
// when the term is over. That two do not lead at a time, and that terms rise, is
// seen by the checkers of locks.
func checkElection(v *view, bad complain) {
	highest := map[int]driver.Token{}
	for _, e := range v.h.Events {
		switch {
		case e.Kind == Observed && e.Keep > 0:
			bad(nil, "c%d observed a leader with term %d at %v that was only kept", e.Client, e.Token, e.At)
		case e.Kind == Observed:
			if e.Token != 0 && e.Token < highest[e.Client] && v.tokensSane {
				bad(nil, "c%d observed term %d at %v after term %d", e.Client, e.Token, e.At, highest[e.Client])
			}
			highest[e.Client] = max(highest[e.Client], e.Token)
		case e.Kind == Campaigned && !e.OK && v.untouched(e.Client) && len(v.losses) == 0 && v.clockSane && !v.wentBack:
			if !v.brokenBefore(leaderName, unmet) {
				bad(nil, "c%d.%d campaigned until %v and ended for no reason with: %v", e.Client, e.Worker, e.At, e.Err)
			}
		}
	}
	for _, a := range v.names[leaderName] {
		if a.resigned != unmet && a.resigned.n < a.unlock.n {
			bad([]*acq{a}, "#%d was resigned from at %v, before its term was over", a.call.Acq, a.resigned.at)
		}
	}
}

// checkLeft: when all workers have ended, no client holds or wants anything, so
// the store keeps nothing of it but its empty sessions; and nothing at all of
// processes that have ended, or when all clients are closed. A store that woke up
// with an older memory may know claims that ended or were broken as still to be
// withdrawn. A tombstone may stay as long as its session, where an attempt may
// have been on its way when its caller went: by a fault or by its context.
func checkLeft(v *view, bad complain) {
	tombstones := map[int]int{}
	for _, l := range v.h.Left {
		tombstones[l.Client] += l.Tombstones
		switch {
		case !l.Alive:
			bad(nil, "c%d has ended, and the store keeps its session %s", l.Client, l.ID)
		case len(l.Granted) > 0:
			bad(nil, "c%d holds nothing, and the store has granted %q to its session %s", l.Client, l.Granted, l.ID)
		case len(l.Queued) > 0:
			bad(nil, "c%d wants nothing, and %q is queued for its session %s", l.Client, l.Queued, l.ID)
		case l.Ended+l.Broken > 0 && !v.wokeUpOld():
			bad(nil, "c%d has nothing to withdraw, and the store keeps %d of its claims that ended and %d that were broken",
				l.Client, l.Ended, l.Broken)
		}
	}
	if v.h.Rest != "" {
		bad(nil, "all clients are closed, and the store keeps %s", v.h.Rest)
	}
	gaveUp := map[int]int{}
	for _, a := range v.acqs {
		if !a.ok || a.downErr != nil {
			gaveUp[a.call.Client]++
		}
	}
	for client, n := range tombstones {
		if v.untouched(client) && len(v.losses) == 0 && n > gaveUp[client] {
			bad(nil, "no fault struck c%d, %d of its acquisitions gave up, and it left %d tombstones", client, gaveUp[client], n)
		}
	}
}

// wokeUpOld reports whether the store ever began an incarnation with an older
// memory.
func (v *view) wokeUpOld() bool {
	for _, loss := range v.dataLosses {
		if loss.Kind == Restored {
			return true
		}
	}
	return false
}

// checkNotice: after an answer that says that a session has ended, or that refuses its
// renewal, the client does not go on with the session: its holders are notified at
// that instant.
func checkNotice(v *view, bad complain) {
	for _, e := range v.h.Events {
		if e.Kind != Rejected {
			continue
		}
		if over, is := v.sessionsOver[e.Session]; !is || over.at > e.At {
			bad(nil, "c%d got an answer at %v that ends its session %s, and went on with it: %v", e.Client, e.At, e.Session, e.Err)
		}
	}
}
