// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

const errorsPath = "docs/troubleshooting.md"

// checkErrorPage: every error that a user can ask for has a part of docs/troubleshooting.md
// that says what it means, where to look and what to do, and no other has.
func checkErrorPage(t tree) []complaint {
	var cs []complaint
	lines := t.lines(errorsPath)
	var known []string
	for _, f := range t.goFiles() {
		if f.isTest() || f.dir() != "." && f.dir() != "fence" {
			continue
		}
		for _, name := range exportedErrors(f.ast) {
			known = append(known, name.Name)
			if !slices.Contains(lines, "### "+name.Name) {
				cs = append(cs, f.complain(name.Pos(), "%s has no part in %s; add ### %s", name.Name, errorsPath, name.Name))
			}
		}
	}
	for i, l := range lines {
		name, ok := strings.CutPrefix(l, "### ")
		if !ok {
			continue
		}
		if !slices.Contains(known, name) {
			cs = append(cs, complaint{errorsPath, i + 1, name + " is no error of the packages fencelock and fence"})
		}
		for _, word := range []string{"*Means:*", "*Check:*", "*Do:*"} {
			if !hasBefore(lines[i+1:], word) {
				cs = append(cs, complaint{errorsPath, i + 1, name + " has no paragraph that begins with " + word})
			}
		}
	}
	return cs
}

// hasBefore reports whether a line begins with word before the next heading.
func hasBefore(lines []string, word string) bool {
	for _, l := range lines {
		if strings.HasPrefix(l, "#") {
			return false
		}
		if strings.HasPrefix(l, word) {
			return true
		}
	}
	return false
}

// exportedErrors returns the variables of a file that are called Err and more.
func exportedErrors(f *ast.File) []*ast.Ident {
	var found []*ast.Ident
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		prefix := map[token.Token]string{token.VAR: "Err", token.CONST: "Loss"}
		if !ok || prefix[g.Tok] == "" {
			continue
		}
		for _, s := range g.Specs {
			for _, name := range s.(*ast.ValueSpec).Names {
				if rest, ok := strings.CutPrefix(name.Name, prefix[g.Tok]); ok && rest != "" && ast.IsExported(rest) {
					found = append(found, name)
				}
			}
		}
	}
	return found
}

func TestErrorPage(t *testing.T) { checkRepo(t, checkErrorPage) }

func TestErrorPageComplains(t *testing.T) {
	wantComplaints(t, checkErrorPage, treeOf(
		"a.go", "package a\nvar (\n\tErrOne = 1\n\tErrTwo = 2\n\terrThree = 3\n)\nconst ErrFour = 4\nconst LossFive = 5\n",
		"fence/b.go", "package fence\nvar ErrFive = 5\n",
		"other/c.go", "package other\nvar ErrSix = 6\n",
		errorsPath, "# E\n### ErrOne\n\n*Means:* a\n\n*Check:* b\n\n*Do:* c\n### ErrFive\n\n*Means:* a\n\n*Do:* c\n### ErrGone\n*Means:*\n*Check:*\n*Do:*\n",
	),
		"a.go:4: ErrTwo has no part",
		"a.go:8: LossFive has no part",
		errorsPath+":9: ErrFive has no paragraph that begins with *Check:*",
		errorsPath+":14: ErrGone is no error",
	)
}
