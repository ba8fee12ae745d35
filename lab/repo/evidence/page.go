// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"os"
	"strings"

	"github.com/fencelock/fencelock/internal/figure"
)

// limits has a line for each reason why goals are missed: names of figures, a colon, the reason.
//
//go:embed limits.txt
var limits string

// limitsByName returns the reasons by the names of figures.
func limitsByName(text string) (map[string]string, error) {
	of := map[string]string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		names, reason, ok := strings.Cut(line, ": ")
		if !ok {
			return nil, fmt.Errorf("limits.txt: no reason in %q", line)
		}
		for _, name := range strings.Fields(names) {
			if of[name] != "" {
				return nil, fmt.Errorf("limits.txt: two reasons for %s", name)
			}
			of[name] = reason
		}
	}
	return of, nil
}

// show prints what there is.
func show() error {
	for _, r := range all() {
		res, err := read(r)
		if err != nil {
			return err
		}
		why, err := r.older()
		if err != nil {
			return err
		}
		state := "not run"
		if res.commit != "" {
			state = res.line()
		}
		if why != "" && why != state {
			state += " (" + why + ")"
		}
		fmt.Printf("%-20s %s\n", r.Name, state)
	}
	return nil
}

// writePage writes the page from what is kept. It fails, after it has written, if a goal is missed for a reason
// that nobody has written down.
func writePage() error {
	reasons, err := limitsByName(limits)
	if err != nil {
		return err
	}
	var rs []result
	for _, r := range all() {
		res, err := read(r)
		if err != nil {
			return err
		}
		rs = append(rs, res)
	}
	text, unexplained := render(rs, reasons)
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		return err
	}
	if len(unexplained) > 0 {
		return fmt.Errorf("add to lab/repo/evidence/limits.txt what limits %s", strings.Join(unexplained, ", "))
	}
	return nil
}

// render is the page, and the missed figures without a reason.
func render(all []result, reasons map[string]string) (text string, unexplained []string) {
	var b strings.Builder
	b.WriteString("# Evidence\n\nWritten by `make evidence`, on two cores that servers and clients share. A figure is a ratio or a count of one run. *Stolen* is the part of the processors' time that the host of this machine gave to others meanwhile; where it is empty, it was not measured.\n\n")
	b.WriteString("| Command | Result | Figures: goals met, missed | Seconds | Day, commit | Load before | Stolen, % |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range all {
		if r.commit == "" {
			fmt.Fprintf(&b, "| `%s` | not run | | | | | |\n", r.run.Command)
			continue
		}
		result, figures := "failed", ""
		if r.passed {
			result = "passed"
		}
		if met, missed := r.met(); met+missed > 0 {
			figures = fmt.Sprintf("%d, %d", met, missed)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %d | %s, commit %s | %s | %s |\n", r.run.Command, result, figures, int(r.took.Seconds()), r.day.Format("2006-01-02"), r.commit, r.load, r.stolen)
	}
	b.WriteString("\n## Goals that were missed\n\n| Figure | Measured | Goal | What limits it |\n| --- | --- | --- | --- |\n")
	each(all, func(f figure.Figure) {
		if f.Met() {
			return
		}
		reason := reasons[f.Name]
		if reason == "" {
			unexplained, reason = append(unexplained, f.Name), "?"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Name, figure.Number(f.Value), f.Goal, reason)
	})
	b.WriteString("\n## Goals that were met\n\n| Figure | Measured | Goal |\n| --- | --- | --- |\n")
	each(all, func(f figure.Figure) {
		if f.Met() && f.Goal != (figure.Bound{}) {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Name, figure.Number(f.Value), f.Goal)
		}
	})
	return b.String(), unexplained
}

// each calls a function once for the figures of each name; several runs print some.
func each(all []result, do func(figure.Figure)) {
	seen := map[string]bool{}
	for _, r := range all {
		for _, f := range r.figures {
			if !seen[f.Name] {
				seen[f.Name] = true
				do(f)
			}
		}
	}
}
