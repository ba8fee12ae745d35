// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// namedTest is the name of a test in prose. Names with a star or an ellipsis
	// are patterns, not names, and are left alone.
	namedTest = regexp.MustCompile(`\b(Test|Fuzz)[A-Z]\w*`)
	// testLink is a link to a test: its text is the name, its target the file.
	testLink = regexp.MustCompile("\\[`?(Test[A-Z]\\w*)`?\\]\\(([^)\\s]+)\\)")
)

// checkTestNames: a document that names a test names one that exists, in whatever
// module, and a link with a test's name leads to the file that has it.
func checkTestNames(t tree) []complaint {
	everywhere, byFile := map[string]bool{}, map[string]map[string]bool{}
	for _, f := range t.goFiles() {
		if !f.isTest() {
			continue
		}
		byFile[f.path] = map[string]bool{}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				everywhere[fn.Name.Name], byFile[f.path][fn.Name.Name] = true, true
			}
		}
	}
	var cs []complaint
	for _, p := range documents(t) {
		_, prose := fences(t.lines(p))
		for i, l := range prose {
			for _, name := range namedTest.FindAllString(l, -1) {
				if !everywhere[name] {
					cs = append(cs, complaint{p, i + 1, name + " is no function of any test file; name one that exists"})
				}
			}
			for _, m := range testLink.FindAllStringSubmatch(l, -1) {
				if to := path.Join(path.Dir(p), m[2]); everywhere[m[1]] && !byFile[to][m[1]] {
					cs = append(cs, complaint{p, i + 1, m[1] + " is not in " + to + "; link the file that has it"})
				}
			}
		}
	}
	return cs
}

// documents are the Markdown files for readers: in docs, and READMEs at the top.
func documents(t tree) []string {
	return slices.DeleteFunc(t.paths(".md"), func(p string) bool {
		top := !strings.Contains(p, "/") && strings.HasPrefix(p, "README")
		return !top && !strings.HasPrefix(p, "docs/")
	})
}

const claimsPath = findingsDir + "/claims.txt"

// checkGuarantees: every claim of docs/guarantees.md has a line with its tests. checkFindings sees to it that they exist.
func checkGuarantees(t tree) []complaint {
	var cs []complaint
	claims := 0
	for i, l := range t.lines(claimsPath) {
		if !strings.HasPrefix(l, "claim ") {
			continue
		}
		claims++
		if !namedTest.MatchString(l) {
			cs = append(cs, complaint{claimsPath, i + 1, "the claim has no test; name one, or take the claim out"})
		}
	}
	if claims == 0 {
		cs = append(cs, complaint{claimsPath, 1, "no claims; each is a line with its tests"})
	}
	return cs
}

func TestTestNames(t *testing.T)  { checkRepo(t, checkTestNames) }
func TestGuarantees(t *testing.T) { checkRepo(t, checkGuarantees) }

func TestTestNamesComplain(t *testing.T) {
	wantComplaints(t, checkTestNames, treeOf(
		"README.md", "`TestOne` and TestTwo\n",
		"CONTRIBUTING.md", "`TestNone` is an example here.\n",
		"docs/a/b.md", "[`TestOne`](../../s/a_test.go) [TestOne](../../s/b_test.go)\n```\nTestNone\n```\nTest or `Test*`\n",
		"s/a_test.go", "package s\nfunc TestOne() {}\n",
		"s/b_test.go", "package s\n",
		"s/c.go", "package s\nfunc TestTwo() {}\n",
	),
		"README.md:1: TestTwo is no function",
		"docs/a/b.md:1: TestOne is not in s/b_test.go",
	)
}

func TestGuaranteesComplain(t *testing.T) {
	wantComplaints(t, checkGuarantees, treeOf(claimsPath, "# C\nclaim 1 | one | a TestOne\nclaim 2 | two | none: later\n"), claimsPath+":3: the claim has no test")
	wantComplaints(t, checkGuarantees, treeOf(claimsPath, "# C\n"), claimsPath+":1: no claims")
}
