// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

// Report is what a suite measured.
type Report struct {
	Suite, Server, Command string
	Machine                Machine
	Parts                  []*Part
}

// Part is what one part of it measured.
type Part struct {
	Name, Title, Text string
	Cells             suite.Cells
	part              *suite.Part
}

// NewPart joins a part with what was measured.
func NewPart(p *suite.Part, cells suite.Cells) *Part {
	return &Part{p.Name, p.Title, p.Text, cells, p}
}

// ratio divides by the bare candidate, if the part has one.
func (p *Part) ratio() Ratio {
	if p.part.Ratio == "" {
		return nil
	}
	return func(kase, name string) float64 {
		bare := p.part.Bare
		if c, err := candidate.Named(name); bare == "" && err == nil {
			bare = c.Bare
		}
		if bare == "" || bare == name {
			return math.NaN()
		}
		return p.Cells.Ratio(kase, name, bare, p.part.Ratio)
	}
}

// Print prints the part's table for the terminal.
func (p *Part) Print(out io.Writer) {
	fmt.Fprintf(out, "\n%s\n", p.Title)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range Rows(p.Cells, p.part.Metrics, p.ratio()) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush()
}

// Redraw draws the charts in dir/SUITE again from the numbers there. The page stays: it
// states versions and settings of the run, which may differ from today's.
func Redraw(dir string, s *suite.Suite) error {
	dir = filepath.Join(dir, s.Name)
	numbers, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err != nil {
		return err
	}
	var r Report
	if err := json.Unmarshal(numbers, &r); err != nil {
		return fmt.Errorf("results of %s: %w", s.Name, err)
	}
	for _, p := range r.Parts {
		parts, err := s.Only([]string{p.Name})
		if err != nil {
			return err
		}
		p.part = parts[0]
	}
	return r.draw(dir)
}

// draw writes the charts into dir.
func (r *Report) draw(dir string) error {
	for _, p := range r.Parts {
		image, err := p.chart()
		if err != nil {
			return fmt.Errorf("chart of %s: %w", p.Name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, p.Name+".svg"), image, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Write writes the page, the numbers and the charts into dir/SUITE.
func (r *Report) Write(dir string) error {
	dir = filepath.Join(dir, r.Suite)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := r.draw(dir); err != nil {
		return err
	}
	numbers, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "results.json"), append(numbers, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "README.md"), r.page(), 0o644)
}

// page is the page for people.
func (r *Report) page() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Suite %s\n\n", r.Suite)
	fmt.Fprintf(&b, "Written by `%s`; do not edit. [How to read it](../../../bench/README.md), [all samples](results.json).\n\n", r.Command)
	fmt.Fprintf(&b, "%s on %s. Server and clients share the machine.", r.Server, r.Machine)
	if r.Machine.Commit != "" {
		fmt.Fprintf(&b, " What was measured is commit %s.", r.Machine.Commit)
	}
	b.WriteString("\n\n")
	for _, p := range r.Parts {
		fmt.Fprintf(&b, "## %s\n\n%s\n\n![%s](%s.svg)\n\n", p.Title, p.Text, p.caption(), p.Name)
		for i, row := range Rows(p.Cells, p.part.Metrics, p.ratio()) {
			for _, cell := range row {
				fmt.Fprintf(&b, "| %s ", markdown.Replace(cell))
			}
			b.WriteString("|\n")
			if i == 0 {
				fmt.Fprintf(&b, "|%s\n", strings.Repeat(" --- |", len(row)))
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("## Candidates\n\n| candidate | settings |\n| --- | --- |\n")
	for _, name := range r.candidates() {
		if c, err := candidate.Named(name); err == nil {
			fmt.Fprintf(&b, "| %s | %s |\n", name, c.Settings)
		}
	}
	b.WriteString("\n## Versions\n\n| module | version |\n| --- | --- |\n")
	for _, m := range r.Machine.Modules {
		fmt.Fprintf(&b, "| %s | %s |\n", m.Path, m.Version)
	}
	return []byte(b.String())
}

func (r *Report) candidates() []string {
	var names []string
	for _, p := range r.Parts {
		for _, n := range p.Cells.Candidates() {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	return names
}
