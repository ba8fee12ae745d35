// SPDX-License-Identifier: Apache-2.0

// Package report prints what a run found: as text, and as one page that needs
// nothing else.
package report

import (
	"fmt"
	"strings"

	"github.com/fencelock/fencelock/lab/torture/internal/cell"
	"github.com/fencelock/fencelock/lab/torture/internal/check"
)

// Tally counts the cells that ran, and those of them that failed.
func Tally(results []cell.Result) (ran, failed int) {
	for _, r := range results {
		switch r.Status {
		case cell.Failed:
			failed++
			ran++
		case cell.Held, cell.Allowed:
			ran++
		}
	}
	return ran, failed
}

// Undecided counts the cells that ran and for which Porcupine had not enough time.
func Undecided(results []cell.Result) (n int) {
	for _, r := range results {
		if undecided(r) != "" {
			n++
		}
	}
	return n
}

// why is the reason of a verdict, and that Porcupine had no time.
func why(r cell.Result) string {
	reason := r.Reason
	if u := undecided(r); u != "" && reason != "" {
		return reason + "; " + u
	} else if u != "" {
		return u
	}
	return reason
}

// Text is the summary for a terminal: a line for each cell.
func Text(results []cell.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-12s %-20s %5s %-16s %6s %7s %6s  %s\n", "servers", "fault", "seed", "verdict", "grants", "refused", "unfen.", "why")
	for _, r := range results {
		fmt.Fprintf(&b, "%-12s %-20s %5d %-16s %6d %7d %6d  %s\n", r.Deployment, r.Fault, r.Seed, r.Status, r.Grants, r.Refused, r.Counts[check.U], why(r))
	}
	b.WriteString("\nF fenced effects exclusive, L not stuck, W no lost wake-up, T exclusion in time, N holder notified in time,\n" +
		"O order of asking, U what the register without a guard lost; refused: late writes that the guard stopped.\n")
	return b.String()
}
