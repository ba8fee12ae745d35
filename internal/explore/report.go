// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"fmt"
	"time"
)

// Report prints the outcomes of searches, and counts those that are not as they should be.
type Report struct {
	// Broken is how many violations were found with all rules, and Undetected how many rules were off without one.
	Broken, Undetected int

	limit       int
	verbose     bool
	states      int
	began, last time.Time
}

// NewReport returns a report about searches that see at most limit states with all rules. verbose also prints the steps of
// the counterexamples that are meant to be found.
func NewReport(limit int, verbose bool) *Report {
	now := time.Now()
	return &Report{limit: limit, verbose: verbose, began: now, last: now}
}

// Add prints the outcome of a search of a scene with all rules, or without the one that is off.
func (r *Report) Add(scene, off string, res Result) {
	now := time.Now()
	r.states += res.States
	rule, outcome := "all rules", "no violation, all of them"
	if off != "" {
		rule = "without " + off
	}
	if res.States >= r.limit {
		outcome = "no violation, the first of them"
	}
	if res.Violation != "" {
		outcome = fmt.Sprintf("counterexample of %d steps: %s", len(res.Steps), res.Violation)
	}
	switch {
	case off == "" && res.Violation != "":
		r.Broken++
		outcome = "WRONG: " + outcome
	case off != "" && res.Violation == "":
		r.Undetected++
		outcome = "NOT DETECTED: " + outcome
	}
	fmt.Printf("model: %-21s %-26s %9d states %6.1f s, %s\n", scene, rule, res.States, now.Sub(r.last).Seconds(), outcome)
	r.last = now
	if r.verbose || off == "" {
		for i, step := range res.Steps {
			fmt.Printf("%8d. %s\n", i+1, step)
		}
	}
}

// End prints the sums, and returns how many searches did not end as they should.
func (r *Report) End() int {
	fmt.Printf("model: %d states, %d violations with all rules, %d rules off undetected, %.0f s\n", r.states, r.Broken, r.Undetected, time.Since(r.began).Seconds())
	return r.Broken + r.Undetected
}
