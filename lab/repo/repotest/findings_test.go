// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
)

// findingsDir has a file for each report of a review, with a line for each finding:
//
//	ID | what was wrong | package/dir TestName, TestOther
//	ID | what was wrong | none: why it has no test
const findingsDir = "lab/repo/repotest/findings"

// reported are the findings of each report. A finding without a line is open.
var reported = map[string][]string{
	"redis":        numbered("R", 1, 9),
	"cluster":      numbered("C", 1, 6),
	"core":         numbered("", 1, 11),
	"quorum":       numbered("", 1, 6),
	"sql":          numbered("D", 1, 5),
	"etcd-zk-http": numbered("E", 1, 6),
	"serve":        slices.Concat(numbered("M", 1, 6), numbered("L", 1, 11)),
	"users":        numbered("", 1, 18),
}

func numbered(prefix string, first, last int) (ids []string) {
	for i := first; i <= last; i++ {
		ids = append(ids, fmt.Sprint(prefix, i))
	}
	return ids
}

// testsByDir are the functions of test files, by the folder that has them.
func testsByDir(t tree) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, f := range t.goFiles() {
		dir := path.Dir(f.path)
		if !f.isTest() {
			continue
		}
		if all[dir] == nil {
			all[dir] = map[string]bool{}
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				all[dir][fn.Name.Name] = true
			}
		}
	}
	return all
}

// checkFindings: a finding has one line, which names tests that exist, or why there is none.
func checkFindings(t tree) []complaint {
	var cs []complaint
	tests := testsByDir(t)
	for _, p := range t.paths(".txt") {
		if path.Dir(p) != findingsDir {
			continue
		}
		seen := map[string]bool{}
		for i, l := range t.lines(p) {
			cells := strings.Split(l, " | ")
			switch {
			case l == "" || strings.HasPrefix(l, "#"):
				continue
			case len(cells) != 3:
				cs = append(cs, complaint{p, i + 1, "want: ID | what was wrong | dir TestName, TestOther"})
				continue
			case seen[cells[0]]:
				cs = append(cs, complaint{p, i + 1, cells[0] + " has a line already; say all of it in one"})
			}
			seen[cells[0]] = true
			if why := unheld(cells[2], tests); why != "" {
				cs = append(cs, complaint{p, i + 1, cells[0] + " " + why})
			}
		}
	}
	return cs
}

// unheld returns what is wrong with the last cell of a finding, or "".
func unheld(cell string, tests map[string]map[string]bool) string {
	if reason, ok := strings.CutPrefix(cell, "none: "); ok && reason != "" {
		return ""
	}
	dir, found := "", false
	for _, word := range strings.FieldsFunc(cell, func(r rune) bool { return r == ' ' || r == ',' || r == ';' }) {
		switch {
		case tests[word] != nil:
			dir = word
		case tests[dir][word]:
			found = true
		default:
			return fmt.Sprintf("names %s, which is no test of %q", word, dir)
		}
	}
	if !found {
		return `names no test; write "dir TestName", or "none: " and why`
	}
	return ""
}

// openFindings are the findings that have no line.
func openFindings(t tree) (open []string) {
	for report, ids := range reported {
		has := map[string]bool{}
		for _, l := range t.lines(path.Join(findingsDir, report+".txt")) {
			id, _, _ := strings.Cut(l, " | ")
			has[id] = true
		}
		for _, id := range ids {
			if !has[id] {
				open = append(open, report+" "+id)
			}
		}
	}
	slices.Sort(open)
	return open
}

func TestFindings(t *testing.T) {
	checkRepo(t, checkFindings)
	files, err := repo()
	must.OK(t, err)
	open := openFindings(files)
	for _, id := range open {
		t.Errorf("open: %s", id)
	}
	figure.Print("review-open", len(open), figure.Exactly(0))
}

func TestFindingsAreRefused(t *testing.T) {
	wantComplaints(t, checkFindings, treeOf(
		"s/a_test.go", "package s\nfunc TestOne() {}\n",
		findingsDir+"/x.txt", "# a comment\nA1 | wrong | s TestOne\nA1 | wrong | s TestOne\nA2 | wrong | s TestTwo\nA3 | wrong | none: a text\nA4 | wrong | none: \nA5 | wrong\nA6 | wrong | s\n"),
		findingsDir+"/x.txt:3: A1 has a line already",
		findingsDir+"/x.txt:4: A2 names TestTwo",
		findingsDir+"/x.txt:6: A4 names none:",
		findingsDir+"/x.txt:7: want:",
		findingsDir+"/x.txt:8: A6 names no test",
	)
}
