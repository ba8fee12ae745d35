// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
)

// rootEntries counts the rows that a hosting page lists for the top folder: files and
// folders.
func rootEntries(t tree) int {
	rows := map[string]bool{}
	for p := range t {
		row, _, _ := strings.Cut(p, "/")
		rows[row] = true
	}
	return len(rows)
}

// goLines counts the lines of Go outside testdata, tests included.
func goLines(t tree) int {
	n := 0
	for _, p := range t.paths(".go") {
		if !inDir(p, "testdata") {
			n += len(t.lines(p))
		}
	}
	return n
}

// productLines counts the lines of Go that users get: no tests, and nothing that only proves or measures.
func productLines(t tree) int {
	n := 0
	for _, p := range t.paths(".go") {
		if !strings.HasSuffix(p, "_test.go") && !inDir(p, "testdata") && !isTool(p) {
			n += len(t.lines(p))
		}
	}
	return n
}

// tools are the folders outside lab that prove or measure.
var tools = []string{"driver/drivertest", "fence/fencetest", "examples", "internal/servers", "internal/figure", "internal/measure", "internal/locktest",
	"internal/must", "internal/storetest", "store/quorum/internal/model", "store/quorum/internal/modelcheck", "store/redisstore/internal/redistest", "store/etcdstore/internal/etcdtest"}

// isTool reports whether a file is part of what proves or measures.
func isTool(p string) bool {
	return strings.HasPrefix(p, "lab/") || slices.ContainsFunc(tools, func(d string) bool { return strings.HasPrefix(p, d+"/") })
}

// required counts the modules that a go.mod names.
func required(t tree, mod string) int {
	n := 0
	for _, l := range t.lines(mod) {
		if l = strings.TrimSpace(strings.TrimPrefix(l, "require ")); strings.Contains(l, " v") && !strings.HasPrefix(l, "//") {
			n++
		}
	}
	return n
}

// figureTypes returns the declarations of a type for a figure: one that is called so.
// A figure has a name, a value and a goal; which of them a type has is not checked, so
// that one more with other fields is found too.
func figureTypes(t tree) []complaint {
	var cs []complaint
	for _, f := range t.goFiles() {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok && strings.EqualFold(s.Name.Name, "figure") {
				cs = append(cs, f.complain(s.Pos(), "type %s", s.Name.Name))
			}
			return true
		})
	}
	return cs
}

// admissionRules returns the functions that decide whether a claim fits beside grants:
// those that add up weights, in driver and in stores, outside tests. Nothing else there has
// a reason to. Checkers of histories in lab/sim add up weights as well; they must not
// share the code they check. The Lua of redisstore cannot share it.
func admissionRules(t tree) []complaint {
	var cs []complaint
	for _, f := range t.goFiles() {
		if f.isTest() || !strings.HasPrefix(f.path, "driver/") && !strings.HasPrefix(f.path, "store/") {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && addsWeights(fn) {
				cs = append(cs, f.complain(fn.Pos(), "func %s", fn.Name.Name))
			}
		}
	}
	return cs
}

// addsWeights reports whether a function adds something called a weight to a sum.
func addsWeights(fn *ast.FuncDecl) bool {
	adds := false
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			adds = adds || n.Tok == token.ADD_ASSIGN && mentionsWeight(n.Rhs[0])
		case *ast.BinaryExpr:
			adds = adds || n.Op == token.ADD && mentionsWeight(n)
		}
		return !adds
	})
	return adds
}

// mentionsWeight reports whether a name in an expression is weight, in any case.
func mentionsWeight(e ast.Expr) bool {
	mentions := false
	ast.Inspect(e, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		mentions = mentions || ok && strings.EqualFold(id.Name, "weight")
		return !mentions
	})
	return mentions
}

// TestHouseFigures prints what make figures-house shows. It does not fail: the counts come
// down piece by piece.
func TestHouseFigures(t *testing.T) {
	files, err := repo()
	must.OK(t, err)
	types, rules := figureTypes(files), admissionRules(files)
	for _, c := range append(types, rules...) {
		t.Log(c)
	}
	figure.Print("house-root-entries", rootEntries(files), figure.AtMost(58))
	figure.Print("house-go-lines", goLines(files), figure.AtMost(196000))
	figure.Print("house-product-lines", productLines(files), figure.AtMost(65500))
	figure.Print("house-modules-otel", required(files, "otelfencelock/go.mod"), figure.AtMost(8))
	figure.Print("house-figure-types", len(types), figure.Exactly(1))
	figure.Print("house-admission-rules", len(rules), figure.Exactly(1))
	figure.Print("house-server-starters", len(starterPackages(files)), figure.Exactly(1))
	figure.Print("house-names-misplaced", len(misplaced), figure.Exactly(0))
}

func TestHouseFiguresAreCounted(t *testing.T) {
	files := treeOf(
		"README.md", "",
		"a.go", "package a\n\ntype figure struct{}\n",
		"a/b.go", "package a\n\nfunc f() { type Figure struct{}; type figures []int }\n",
		"a/testdata/c.go", "package c\n",
		"driver/fits.go", "package driver\n\nfunc fits() { for { used += min(g.Weight, limit) } }\n\nfunc check() bool { return c.Weight < 1 }\n",
		"store/a/a.go", "package a\n\nfunc (s *S) room() bool { return used+c.weight() <= limit }\n\nfunc n() { n += 1 }\n",
		"store/a/a_test.go", "package a\n\nfunc f() { n += weight }\n",
		"lab/sim/a.go", "package sim\n\nfunc f() { n += weight }\n")
	if got := rootEntries(files); got != 6 {
		t.Errorf("rootEntries: got %d, want 6: README.md, a.go, a, driver, internal, store", got)
	}
	if got := goLines(files); got != 3+3+5+5+3+3 {
		t.Errorf("goLines: got %d, want 22", got)
	}
	wantComplaints(t, figureTypes, files, "a.go:3: type figure", "a/b.go:3: type Figure")
	wantComplaints(t, admissionRules, files, "driver/fits.go:3: func fits", "store/a/a.go:3: func room")
}
