// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/internal/checkout"
	"github.com/fencelock/fencelock/lab/repo/internal/runs"
)

// The table is between these lines.
const (
	begin = "<!-- versions: make compat writes this table -->"
	end   = "<!-- end of versions -->"
)

// notRun is a cell that no run has filled.
const notRun = "not run"

const heading = "| Server | Conformance | Failover | Torture smoke |\n| --- | --- | --- | --- |\n"

// A row is a server of one version, and its cells in the order of suites.
type row struct {
	title string
	cells []string
}

// withCell returns a page with one cell of its table replaced.
func withCell(page, title string, s suite, cell string) (string, error) {
	before, table, after, err := cut(page)
	if err != nil {
		return "", err
	}
	rows := parse(table)
	i := slices.IndexFunc(rows, func(r row) bool { return r.title == title })
	if i < 0 {
		rows = append(rows, row{title, slices.Repeat([]string{notRun}, len(suites))})
		i = len(rows) - 1
	}
	rows[i].cells[slices.Index(suites, s)] = cell
	return before + begin + "\n\n" + render(rows) + "\n" + end + after, nil
}

// cellOf is a cell of a page, notRun if the page does not have it.
func cellOf(page, title string, s suite) string {
	_, table, _, err := cut(page)
	if err != nil {
		return notRun
	}
	for _, r := range parse(table) {
		if r.title == title {
			return r.cells[slices.Index(suites, s)]
		}
	}
	return notRun
}

// measuredOn is the commit at the end of a cell that did not fail.
var measuredOn = regexp.MustCompile(`^[0-9]+ passed, [0-9-]+, ([0-9a-f]{7,40})$`)

// measured reports whether a cell of a page shows this code, and did not fail.
func (v version) measured(page string, s suite) (bool, error) {
	if v.command(s) == nil {
		return true, nil
	}
	m := measuredOn.FindStringSubmatch(cellOf(page, v.title(), s))
	if m == nil {
		return false, nil
	}
	code := runs.OnServers
	if s == torture {
		code = append([]string{runs.Quorum}, code...)
	}
	why, err := checkout.Older(".", m[1], code...)
	return why == "", err
}

// printFigures counts the cells of a page.
func printFigures(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	_, table, _, err := cut(string(text))
	if err != nil {
		return err
	}
	passed, failed := 0, 0
	for _, r := range parse(table) {
		for _, c := range r.cells {
			switch {
			case measuredOn.MatchString(c):
				passed++
			case c != notRun:
				failed++
			}
		}
	}
	figure.Print("compat-cells-passed", passed, figure.AtLeast(50))
	figure.Print("compat-cells-failed", failed, figure.Exactly(0))
	return nil
}

// cut splits a page at its table.
func cut(page string) (before, table, after string, err error) {
	before, rest, ok := strings.Cut(page, begin)
	table, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		return "", "", "", errors.New("no table of versions: it is between the lines " + begin + " and " + end)
	}
	return before, table, after, nil
}

// parse reads the rows of a table.
func parse(table string) (rows []row) {
	for line := range strings.Lines(table) {
		fields := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		if len(fields) != len(suites)+1 || fields[0] == "Server" || fields[0] == "---" {
			continue
		}
		rows = append(rows, row{fields[0], fields[1:]})
	}
	return rows
}

// render writes rows in the order of kinds and of versions.
func render(rows []row) string {
	slices.SortStableFunc(rows, func(a, b row) int {
		if d := rank(a.title) - rank(b.title); d != 0 {
			return d
		}
		return compareVersions(a.title, b.title)
	})
	var text strings.Builder
	text.WriteString(heading)
	for _, r := range rows {
		fmt.Fprintf(&text, "| %s | %s |\n", r.title, strings.Join(r.cells, " | "))
	}
	return text.String()
}

// rank is the place of a title's server among kinds.
func rank(title string) int {
	name, _, _ := strings.Cut(title, " ")
	return slices.IndexFunc(kinds, func(s server) bool { return s.name == name })
}

// compareVersions compares the numbers of two titles of one server: 3.9 comes before 3.10.
func compareVersions(a, b string) int {
	return slices.Compare(numbers(a), numbers(b))
}

func numbers(title string) (ns []int) {
	_, version, _ := strings.Cut(title, " ")
	for part := range strings.SplitSeq(version, ".") {
		n := 0
		_, _ = fmt.Sscan(part, &n)
		ns = append(ns, n)
	}
	return ns
}
