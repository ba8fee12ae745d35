// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver/drivertest"
)

const specPath = "docs/spec.md"

// A clause is one numbered sentence of the specification.
type clause struct {
	line     int
	id, rule string
}

var clauseStart = regexp.MustCompile(`^- \*\*([A-Z]\d+)\*\* (.*)$`)

// clausesUnder returns the clauses under a heading of the second level. A
// clause may go on in indented lines.
func clausesUnder(lines []string, title string) []clause {
	var cs []clause
	inside, open := false, false
	for i, l := range lines {
		m := clauseStart.FindStringSubmatch(l)
		switch {
		case strings.HasPrefix(l, "## "):
			inside, open = l == "## "+title, false
		case inside && m != nil:
			cs = append(cs, clause{i + 1, m[1], m[2]})
			open = true
		case open && strings.HasPrefix(l, "  ") && strings.TrimSpace(l) != "":
			cs[len(cs)-1].rule += " " + strings.TrimSpace(l)
		default:
			open = false
		}
	}
	return cs
}

// checkStoreClauses: docs/spec.md and drivertest say the same, in the same
// words, and every clause has a case.
func checkStoreClauses(t tree, entries []drivertest.Clause, cases []drivertest.Case) []complaint {
	var cs []complaint
	inSpec := clausesUnder(t.lines(specPath), "Store clauses")
	if len(inSpec) == 0 {
		cs = append(cs, complaint{specPath, 1, `no clauses under "## Store clauses"; write them as - **S1** sentence`})
	}
	for i, c := range inSpec {
		if slices.ContainsFunc(inSpec[:i], func(d clause) bool { return d.id == c.id }) {
			cs = append(cs, complaint{specPath, c.line, c.id + " is there twice; take the next free number"})
			continue
		}
		var rules []string
		for _, e := range entries {
			if e.ID == c.id {
				rules = append(rules, e.Rule)
			}
		}
		switch {
		case len(rules) != 1:
			cs = append(cs, complaint{specPath, c.line, sprint("%s has %d entries in drivertest.Clauses, want 1", c.id, len(rules))})
		case rules[0] != c.rule:
			cs = append(cs, complaint{specPath, c.line, sprint("%s reads otherwise in drivertest: %q; make them the same", c.id, rules[0])})
		case !slices.ContainsFunc(cases, func(k drivertest.Case) bool { return k.Clause.ID == c.id }):
			cs = append(cs, complaint{specPath, c.line, c.id + " has no case in drivertest; write one that can fail"})
		}
	}
	for _, e := range entries {
		if !slices.ContainsFunc(inSpec, func(c clause) bool { return c.id == e.ID }) {
			cs = append(cs, complaint{specPath, 1, e.ID + " of drivertest.Clauses is not in the specification; write it under Store clauses"})
		}
	}
	return cs
}

var testName = regexp.MustCompile("`((?:Test|Fuzz|Example)\\w*)(?:/[^`]*)?`")

// clausesPath has a line for each clause with its tests; checkFindings sees to it that they exist.
const clausesPath = findingsDir + "/clauses.txt"

// checkCoreClauses: every clause that no test kit runs has a line with its tests.
func checkCoreClauses(t tree) []complaint {
	held := map[string]bool{}
	for _, l := range t.lines(clausesPath) {
		id, _, _ := strings.Cut(l, " | ")
		held[id] = true
	}
	inSpec := clausesUnder(t.lines(specPath), "Core clauses")
	if len(inSpec) == 0 {
		return []complaint{{specPath, 1, `no clauses under "## Core clauses"; write them as - **K1** sentence`}}
	}
	inSpec = append(inSpec, clausesUnder(t.lines(specPath), "Settings of a namespace")...)
	var cs []complaint
	for i, c := range inSpec {
		if slices.ContainsFunc(inSpec[:i], func(d clause) bool { return d.id == c.id }) {
			cs = append(cs, complaint{specPath, c.line, c.id + " is there twice; take the next free number"})
		}
		if !held[c.id] {
			cs = append(cs, complaint{specPath, c.line, c.id + " has no test; give it a line in " + clausesPath})
		}
	}
	return cs
}

func TestStoreClauses(t *testing.T) {
	checkRepo(t, func(files tree) []complaint {
		return checkStoreClauses(files, drivertest.Clauses(), drivertest.Cases())
	})
}

func TestCoreClauses(t *testing.T) { checkRepo(t, checkCoreClauses) }

func TestStoreClausesComplain(t *testing.T) {
	spec := treeOf(specPath, strings.Join([]string{
		"## Store clauses", "### Sessions",
		"- **S1** One.",
		"- **S2** Two goes",
		"  on.",
		"- **S3** Three.",
		"- **S4** Four.",
		"- **S5** Five.",
		"- **S1** One again.",
		"## Core clauses",
		"- **K1** Not a store clause.",
	}, "\n"))
	entries := []drivertest.Clause{
		{ID: "S1", Rule: "One."}, {ID: "S2", Rule: "Two goes on."}, {ID: "S3", Rule: "Drei."},
		{ID: "S5", Rule: "Five."}, {ID: "S6", Rule: "Six."},
	}
	var cases []drivertest.Case
	for _, e := range entries[:3] {
		cases = append(cases, drivertest.Case{Clause: e})
	}
	check := func(t tree) []complaint { return checkStoreClauses(t, entries, cases) }
	wantComplaints(t, check, spec,
		"docs/spec.md:6: S3 reads otherwise in drivertest",
		"docs/spec.md:7: S4 has 0 entries",
		"docs/spec.md:8: S5 has no case",
		"docs/spec.md:9: S1 is there twice",
		"docs/spec.md:1: S6 of drivertest.Clauses is not in the specification",
	)
}

func TestCoreClausesComplain(t *testing.T) {
	spec := "## Settings of a namespace\n- **N1** None.\n## Core clauses\n- **K1** One.\n- **K2** Two.\n- **K1** Again.\n"
	wantComplaints(t, checkCoreClauses, treeOf(specPath, spec, clausesPath, "K1 | one | a TestOne\nN1 | none | a TestNone\n"),
		"docs/spec.md:5: K2 has no test",
		"docs/spec.md:6: K1 is there twice",
	)
	wantComplaints(t, checkCoreClauses, treeOf(specPath, "# Specification\n"), "docs/spec.md:1: no clauses under")
}
