// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"path"
	"regexp"
	"testing"
)

var decisionName = regexp.MustCompile(`^(\d{4})-[a-z0-9]+(?:-[a-z0-9]+)*\.md$`)

// decisionParts are the headings a decision has, in any depth of heading.
var decisionParts = []string{"Status", "Context", "Decision", "Consequences"}

// checkDecisions: decisions are numbered without gaps and say what was known,
// chosen and paid.
func checkDecisions(t tree) []complaint {
	var cs []complaint
	next := 1
	for _, p := range t.paths(".md") {
		name := path.Base(p)
		if path.Dir(p) != "docs/decisions" || name == "README.md" {
			continue
		}
		m := decisionName.FindStringSubmatch(name)
		if m == nil {
			cs = append(cs, complaint{p, 1, "a decision is named NNNN-short-title.md; rename it"})
			continue
		}
		if want := sprint("%04d", next); m[1] != want {
			cs = append(cs, complaint{p, 1, "the next number is " + want + "; numbers have no gaps and are used once"})
		}
		next++
		for _, part := range decisionParts {
			if !regexp.MustCompile(`(?mi)^#+\s+` + part + `\b`).Match(t[p]) {
				cs = append(cs, complaint{p, 1, "the heading " + part + " is missing; see docs/decisions/README.md"})
			}
		}
	}
	return cs
}

func TestDecisions(t *testing.T) { checkRepo(t, checkDecisions) }

func TestDecisionsComplain(t *testing.T) {
	const whole = "# T\n## Status\n## Context\n## Decision\n## Consequences\n"
	wantComplaints(t, checkDecisions, treeOf(
		"docs/decisions/README.md", "# Decisions\n",
		"docs/decisions/0001-one.md", whole,
		"docs/decisions/0003-three.md", "# T\n## Status: accepted\n## Context\n## Decision\n",
		"docs/decisions/Four.md", whole,
	),
		"docs/decisions/0003-three.md:1: the next number is 0002",
		"docs/decisions/0003-three.md:1: the heading Consequences is missing",
		"docs/decisions/Four.md:1: a decision is named",
	)
}
