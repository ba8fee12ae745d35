// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	testCommand = regexp.MustCompile(`go test\b[^;&]*`)
	testPackage = regexp.MustCompile(`\s\./?([\w/.]*)`)
	testWanted  = regexp.MustCompile(`-run[ =]'?([^ ']+)`)
	testPrefix  = regexp.MustCompile(`Test\w+`)
	quoted      = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	piped       = regexp.MustCompile(`\bgo (test|run)\b[^|;&]*\|[^|]`)
)

// checkMakefile: a target that runs tests by name runs some. Go passes when no test has
// the name, so a test that moves to another package would silently not run any more. A failed test
// fails its target, even if another command filters its output.
func checkMakefile(t tree) (cs []complaint) {
	for _, file := range []string{"Makefile", "lab/lab.mk"} {
		for i, l := range t.lines(file) {
			cs = append(cs, checkRecipe(t, file, i+1, l)...)
		}
	}
	return cs
}

// checkRecipe is checkMakefile for one line.
func checkRecipe(t tree, file string, line int, l string) (cs []complaint) {
	if plain := quoted.ReplaceAllString(l, ""); piped.MatchString(plain) && !strings.Contains(plain, "set -o pipefail;") {
		cs = append(cs, complaint{file, line, "the pipe hides that the command failed; begin the line with: set -o pipefail;"})
	}
	for _, command := range testCommand.FindAllString(l, -1) {
		wanted, pkg := testWanted.FindStringSubmatch(command), testPackage.FindStringSubmatch(command)
		if wanted == nil || pkg == nil || strings.Contains(pkg[1], "...") {
			continue
		}
		for _, name := range testPrefix.FindAllString(wanted[1], -1) {
			if !t.hasTest(path.Clean(pkg[1]), name) {
				cs = append(cs, complaint{file, line, sprint("no test in %s begins with %s; name the package that has it", path.Clean(pkg[1]), name)})
			}
		}
	}
	return cs
}

// hasTest reports whether a test of that folder begins with the name.
func (t tree) hasTest(dir, name string) bool {
	for _, p := range t.paths("_test.go") {
		for _, l := range t.lines(p) {
			if path.Dir(p) == dir && strings.HasPrefix(l, "func "+name) {
				return true
			}
		}
	}
	return false
}

func TestMakefile(t *testing.T) { checkRepo(t, checkMakefile) }

func TestMakefileComplains(t *testing.T) {
	wantComplaints(t, checkMakefile, treeOf(
		"Makefile", "a:\n\tgo test . -run '^TestOne$$'\n\tgo test ./s -count=1 -run 'TestTwo|TestThree' -v\n\tgo test -run TestOne ./...\n"+
			"b:\n\tgo test ./... -run 'A|B' | grep ok\n\tset -o pipefail; go run . | grep ok\n\tgo vet . || go test -v ./... || exit 1\n",
		"s/a_test.go", "package s\n\nfunc TestTwo(t *testing.T) {}\n",
	),
		"Makefile:2: no test in . begins with TestOne",
		"Makefile:3: no test in s begins with TestThree",
		"Makefile:6: the pipe hides that the command failed",
	)
}
