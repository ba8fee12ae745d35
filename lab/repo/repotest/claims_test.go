// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"regexp"
	"strings"
	"testing"
)

// forbiddenClaims are promises that no lock with a lease can keep, or that
// only others may make about us.
var forbiddenClaims = regexp.MustCompile(`(?i)guarantees?\s+mutual\s+exclusion|exactly[\s-]+once|jepsen[\s-]+tested`)

// denial: a sentence with one of these may speak of the claim.
var denial = regexp.MustCompile(`(?i)\b(never|not|no|nobody|nothing|cannot)\b`)

// allowedClaims are sentences that use the words for something else.
var allowedClaims = []struct{ path, sentence, why string }{
	{"docs/spec.md", "List shows every held lock exactly once", "about a listing, not about work that is done"},
}

// checkClaims: the documents promise only what the specification says.
func checkClaims(t tree) []complaint {
	var cs []complaint
	for _, p := range t.paths(".md") {
		if inDir(p, "testdata") {
			continue
		}
		_, prose := fences(t.lines(p))
		for _, s := range sentences(prose) {
			claim := forbiddenClaims.FindString(s.text)
			if claim == "" || denial.MatchString(s.text) || claimAllowed(p, s.text) {
				continue
			}
			cs = append(cs, complaint{p, s.line, sprint("%q promises too much; name the clause of docs/spec.md that holds, and when", claim)})
		}
	}
	return cs
}

func claimAllowed(p, sentence string) bool {
	for _, a := range allowedClaims {
		if p == a.path && strings.Contains(sentence, a.sentence) {
			return true
		}
	}
	return false
}

// A sentence is a stretch of prose with the line it begins on.
type sentence struct {
	line int
	text string
}

var (
	// blockStart begins a new block: a list item, a table row, a heading.
	blockStart = regexp.MustCompile(`^\s*([-*+|#>]|\d+\.\s)`)
	// sentenceEnd ends a sentence within a line.
	sentenceEnd = regexp.MustCompile(`[.!?:;]["')*]*\s+`)
)

// sentences splits prose at full stops, colons, semicolons, empty lines and
// list items; line breaks do not count.
func sentences(lines []string) []sentence {
	var all []sentence
	open := false // the last sentence goes on in the next line
	for i, l := range lines {
		if blockStart.MatchString(l) || strings.TrimSpace(l) == "" {
			open = false
		}
		for _, part := range splitAfter(strings.TrimSpace(l)) {
			if open {
				all[len(all)-1].text += " " + part
			} else {
				all = append(all, sentence{i + 1, part})
			}
			open = !sentenceEnd.MatchString(part + " ")
		}
	}
	return all
}

// splitAfter cuts a line after each end of a sentence.
func splitAfter(l string) []string {
	var parts []string
	for l != "" {
		end := len(l)
		if loc := sentenceEnd.FindStringIndex(l); loc != nil {
			end = loc[1]
		}
		parts = append(parts, strings.TrimSpace(l[:end]))
		l = l[end:]
	}
	return parts
}

func TestClaims(t *testing.T) { checkRepo(t, checkClaims) }

func TestClaimsComplain(t *testing.T) {
	wantComplaints(t, checkClaims, treeOf(
		"README.md", strings.Join([]string{
			"It is not slow. It guarantees mutual",
			"exclusion, always.",
			"",
			"- No lock guarantees mutual exclusion.",
			"- Runs Exactly-Once.",
			"",
			"It does not run a job",
			"exactly once.",
			"```\nexactly once\n```",
			"It is Jepsen-tested! It is never Jepsen-tested.",
		}, "\n"),
		"docs/spec.md", "- **I3** List shows every held lock exactly once over its pages.\n- **I9** It runs exactly once.\n",
	),
		"README.md:1: \"guarantees mutual exclusion\" promises too much",
		"README.md:5: \"Exactly-Once\" promises too much",
		"README.md:12: \"Jepsen-tested\" promises too much",
		"docs/spec.md:2: \"exactly once\" promises too much",
	)
}
