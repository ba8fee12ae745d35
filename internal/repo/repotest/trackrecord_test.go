// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/figure"
)

const trackRecord = "docs/track-record.md"

// excuse begins a last column that names no test: the row says why it has no test, or
// that the mutant behaves as the source does.
var excuse = regexp.MustCompile(`^(none|equivalent): \S`)

// regressionTest is a test in the last column.
var regressionTest = regexp.MustCompile("`(Test|Fuzz)[A-Z]\\w*`")

// A finding is one row of the track record.
type finding struct {
	line  int
	cells []string
}

// findings returns the rows of all tables, without heads and rulers.
func findings(lines []string) (rows []finding) {
	for i, l := range lines {
		if !strings.HasPrefix(l, "| ") || strings.HasPrefix(l, "| ---") {
			continue
		}
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "| ---") {
			continue
		}
		// A bar inside a cell is written \|.
		row := strings.ReplaceAll(strings.Trim(l, "| "), `\|`, "\x00")
		cells := strings.Split(row, "|")
		for j, c := range cells {
			cells[j] = strings.TrimSpace(strings.ReplaceAll(c, "\x00", "|"))
		}
		rows = append(rows, finding{i + 1, cells})
	}
	return rows
}

// test returns the last column.
func (f finding) test() string { return f.cells[len(f.cells)-1] }

// checkTrackRecord: every finding is a whole row, is there once, and names the test that
// keeps it from coming back, or why it has no test. That the test exists is checked with
// all names of tests in documents (checkTestNames).
func checkTrackRecord(t tree) []complaint {
	var cs []complaint
	seen := map[string]bool{}
	for _, f := range findings(t.lines(trackRecord)) {
		switch n := len(f.cells); {
		case n != 6 && n != 3:
			cs = append(cs, complaint{trackRecord, f.line, sprint("%d columns, want 6 (3 for a mutant); write \\| for a bar", n)})
		case seen[f.cells[0]]:
			cs = append(cs, complaint{trackRecord, f.line, f.cells[0] + " has a row already; say all of it in one"})
		case !regressionTest.MatchString(f.test()) && !excuse.MatchString(f.test()):
			cs = append(cs, complaint{trackRecord, f.line, f.cells[0] + " names no test; name one in backticks, or write \"none: \" and why"})
		}
		seen[f.cells[0]] = true
	}
	return cs
}

func TestTrackRecord(t *testing.T) {
	checkRepo(t, checkTrackRecord)
	files, err := repo()
	if err != nil {
		t.Fatal(err)
	}
	rows, excused := findings(files.lines(trackRecord)), 0
	for _, f := range rows {
		if excuse.MatchString(f.test()) {
			excused++
		}
	}
	t.Logf("%d rows without a test give their reason", excused)
	figure.Print("track-findings", len(rows), figure.AtLeast(90))
	figure.Print("track-without-test", len(checkTrackRecord(files)), figure.Exactly(0))
}

func TestTrackRecordIsRefused(t *testing.T) {
	head := "| Finding | What | Cause | Fix | Commit | Test |\n| --- | --- | --- | --- | --- | --- |\n"
	wantComplaints(t, checkTrackRecord, treeOf(trackRecord, head+
		"| core D1 | a | b | c | - | `TestGood`, `TestOther` |\n"+
		"| core D2 | a \\| b | b | c | - | none: a sentence in the docs |\n"+
		"| core D3 | a | b | c | - | none |\n"+
		"| core D4 | a | b | c | - | a test |\n"+
		"| core D1 | a | b | c | - | `FuzzGood` |\n"+
		"| core D5 | a | b | c | `TestGood` |\n"+
		"\n| Mutant | Breaks | Killed by |\n| --- | --- | --- |\n"+
		"| m1 | a | equivalent: the same end |\n"+
		"| m2 | a | equivalent |\n"),
		"docs/track-record.md:5: core D3 names no test",
		"docs/track-record.md:6: core D4 names no test",
		"docs/track-record.md:7: core D1 has a row already",
		"docs/track-record.md:8: 5 columns",
		"docs/track-record.md:13: m2 names no test",
	)
}
