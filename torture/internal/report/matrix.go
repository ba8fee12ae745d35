// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/torture/internal/cell"
	"github.com/fencelock/fencelock/torture/internal/check"
)

// short is a verdict in few letters: held; what failed and may, with how often;
// or a word.
func short(r cell.Result) string {
	var n []string
	for _, p := range check.Properties {
		if c := r.Counts[p]; c > 0 && p != check.O {
			n = append(n, fmt.Sprintf("%s %d", p, c))
		}
	}
	text := string(r.Status)
	switch r.Status {
	case cell.Allowed:
		text = strings.Join(n, ", ")
	case cell.Failed:
		text = strings.TrimSpace("FAILED " + strings.Join(n, ", "))
	}
	if u := undecided(r); u != "" {
		text += ", " + u
	}
	return text
}

// undecided says that Porcupine had not enough time for a cell that ran; "" if it
// had.
func undecided(r cell.Result) string {
	if len(r.Undecided) == 0 || r.Status == cell.NotRun {
		return ""
	}
	return "P undecided (" + strings.Join(r.Undecided, ", ") + ")"
}

// Matrix is the verdicts as a table of Markdown, a row for each fault. Cells of
// several seeds stand one after the other if they differ.
func Matrix(results []cell.Result) string {
	var engines, faults []string
	cells := map[[2]string][]string{}
	for _, r := range results {
		if !slices.Contains(engines, r.Column()) {
			engines = append(engines, r.Column())
		}
		if !slices.Contains(faults, r.Fault) {
			faults = append(faults, r.Fault)
		}
		k := [2]string{r.Column(), r.Fault}
		if s := short(r); !slices.Contains(cells[k], s) {
			cells[k] = append(cells[k], s)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| Fault | %s |\n|%s\n", strings.Join(engines, " | "), strings.Repeat(" --- |", len(engines)+1))
	for _, f := range faults {
		fmt.Fprintf(&b, "| %s |", f)
		for _, e := range engines {
			text := strings.Join(cells[[2]string{e, f}], "; ")
			if text == "" {
				text = "–"
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// absent are the reasons why cells do not apply, each with its cells.
func absent(results []cell.Result) []string {
	type key struct{ reason, fault string }
	var keys []key
	columns := map[key][]string{}
	for _, r := range results {
		k := key{r.Reason, r.Fault}
		if r.Status != cell.NotApplicable || slices.Contains(columns[k], r.Column()) {
			continue
		}
		if columns[k] == nil {
			keys = append(keys, k)
		}
		columns[k] = append(columns[k], r.Column())
	}
	var lines []string
	said := map[string]bool{}
	for _, k := range keys {
		if said[k.reason] {
			continue
		}
		said[k.reason] = true
		var cells []string
		for _, other := range keys {
			if other.reason == k.reason {
				cells = append(cells, other.fault+" on "+strings.Join(columns[other], ", "))
			}
		}
		lines = append(lines, fmt.Sprintf("%s: %s", k.reason, strings.Join(cells, "; ")))
	}
	return lines
}

// Block is the matrix for a document, with the reasons below it.
func Block(results []cell.Result) string {
	text := Matrix(results)
	if lines := absent(results); len(lines) > 0 {
		text += "\nWhy n/a:\n\n- " + strings.Join(lines, "\n- ") + "\n"
	}
	return text
}
