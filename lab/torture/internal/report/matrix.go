// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencelock/fencelock/lab/torture/internal/cell"
	"github.com/fencelock/fencelock/lab/torture/internal/check"
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
	var deployments, faults []string
	cells := map[[2]string][]string{}
	for _, r := range results {
		if !slices.Contains(deployments, r.Column()) {
			deployments = append(deployments, r.Column())
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
	fmt.Fprintf(&b, "| Fault | %s |\n|%s\n", strings.Join(deployments, " | "), strings.Repeat(" --- |", len(deployments)+1))
	for _, f := range faults {
		fmt.Fprintf(&b, "| %s |", f)
		for _, e := range deployments {
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

// reasons are why cells have a status, each with its cells.
func reasons(results []cell.Result, status cell.Status) []string {
	type key struct{ reason, fault string }
	var keys []key
	columns := map[key][]string{}
	for _, r := range results {
		k := key{plain(r.Reason), r.Fault}
		if r.Status != status || slices.Contains(columns[k], r.Column()) {
			continue
		}
		if columns[k] == nil {
			keys = append(keys, k)
		}
		columns[k] = append(columns[k], r.Column())
	}
	var lines []string
	listed := map[string]bool{}
	for _, k := range keys {
		if listed[k.reason] {
			continue
		}
		listed[k.reason] = true
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

// failures are the cells that failed, each with what it broke and the gravest
// objection.
func failures(results []cell.Result) (lines []string) {
	for _, r := range results {
		if r.Status != cell.Failed {
			continue
		}
		line := fmt.Sprintf("%s on %s, seed %d: %s", r.Fault, r.Column(), r.Seed, plain(r.Reason))
		if vs := r.Gravest(); len(vs) > 0 {
			line += ". " + plain(vs[0].String())
		}
		lines = append(lines, line)
	}
	return lines
}

// plain is a reason for a line of a document: an error may have several, and the
// whole of what a program said before it ended.
func plain(reason string) string {
	const most = 300
	text := []rune(strings.Join(strings.Fields(reason), " "))
	if len(text) > most {
		return string(text[:most]) + " …"
	}
	return string(text)
}

// Source is where a matrix comes from.
type Source struct {
	// Command is what was run, Seed the first one.
	Command string
	Seed    uint64
	When    time.Time
	// Commit is that of fencelock; empty if git does not know it.
	Commit string
}

// Block is the matrix for a document. It needs no words around it: which run it is
// and how it ended come first, and the reasons below it.
func Block(results []cell.Result, from Source) string {
	n := map[cell.Status]int{}
	for _, r := range results {
		n[r.Status]++
	}
	ran, failed := Tally(results)
	var b strings.Builder
	when := from.When.UTC().Format("2006-01-02 15:04 MST")
	if from.Commit != "" {
		when += ", commit " + from.Commit
	}
	fmt.Fprintf(&b, "Seed %d, %s, by `%s`: %d cells run, of which %d held, %d failed where that is allowed, and %d FAILED. "+
		"Not run: %d; n/a: %d; P undecided: %d.\n\n", from.Seed, when, from.Command, ran, n[cell.Held], n[cell.Allowed], failed,
		n[cell.NotRun], n[cell.NotApplicable], Undecided(results))
	b.WriteString(Matrix(results))
	for _, part := range []struct {
		title string
		lines []string
	}{
		{"What FAILED", failures(results)}, {"Why not run", reasons(results, cell.NotRun)}, {"Why n/a", reasons(results, cell.NotApplicable)},
	} {
		if len(part.lines) > 0 {
			fmt.Fprintf(&b, "\n%s:\n\n- %s\n", part.title, strings.Join(part.lines, "\n- "))
		}
	}
	return b.String()
}
