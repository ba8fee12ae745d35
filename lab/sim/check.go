// SPDX-License-Identifier: Apache-2.0

package sim

import "fmt"

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
