// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"go/ast"
	"strings"
	"testing"
)

const (
	maxFileLines = 600
	maxFuncLines = 60
)

// checkSize: nothing is longer than a reader can hold.
func checkSize(t tree) []complaint {
	var cs []complaint
	for _, p := range t.paths(".go", ".lua") {
		if n := len(t.lines(p)); n > maxFileLines && !sizeExempt(p) {
			cs = append(cs, complaint{p, maxFileLines + 1, sprint("the file has %d lines, at most %d; split it, one noun per file", n, maxFileLines)})
		}
	}
	for _, f := range t.goFiles() {
		if sizeExempt(f.path) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if name := funcName(n); name != "" {
				if lines := f.line(n.End()) - f.line(n.Pos()) + 1; lines > maxFuncLines {
					cs = append(cs, f.complain(n.Pos(), "%s has %d lines, at most %d; take a step of it out", name, lines, maxFuncLines))
				}
			}
			return true
		})
	}
	return cs
}

func sizeExempt(p string) bool { return strings.HasSuffix(p, "_gen.go") || inDir(p, "testdata") }

// funcName names a function, literals included; it is "" for other nodes.
func funcName(n ast.Node) string {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return n.Name.Name
	case *ast.FuncLit:
		return "the function literal"
	}
	return ""
}

// checkLicence: every Go file begins with the SPDX line.
func checkLicence(t tree) []complaint {
	const line = "// SPDX-License-" + "Identifier: Apache-2.0"
	var cs []complaint
	for _, p := range t.paths(".go") {
		if !inDir(p, "testdata") && t.lines(p)[0] != line {
			cs = append(cs, complaint{p, 1, "the first line must be " + line})
		}
	}
	return cs
}

func TestSize(t *testing.T)    { checkRepo(t, checkSize) }
func TestLicence(t *testing.T) { checkRepo(t, checkLicence) }

func TestSizeComplains(t *testing.T) {
	long := func(n int) string { return strings.Repeat("\n", n) }
	wantComplaints(t, checkSize, treeOf(
		"a.lua", long(601),
		"b.go", "package p"+long(601),
		"c.go", "package p"+long(600),
		"d_gen.go", "package p"+long(700),
		"x/testdata/e.go", "package p"+long(700),
		"f.go", "package p\nfunc f() {"+long(60)+"}\n",
		"g.go", "package p\nfunc f() {"+long(59)+"}\n",
		"h.go", "package p\nvar v = func() {"+long(60)+"}\n",
	),
		"a.lua:601: the file has 601 lines",
		"b.go:601: the file has 601 lines",
		"f.go:2: f has 61 lines",
		"h.go:2: the function literal has 61 lines",
	)
}

func TestLicenceComplains(t *testing.T) {
	wantComplaints(t, checkLicence, treeOf("a.go", "package a\n"), "a.go:1: the first line must be")
}
