// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"bytes"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
)

// An index is what several checks want to know of a package.
type index struct {
	api     *API
	info    *types.Info
	root    inspector.Cursor
	skip    bool                      // the package cannot name a lock
	assigns map[*types.Var][]ast.Expr // what a variable is set to; the call, for one of several results
	uses    map[*types.Var][]inspector.Cursor
	writes  map[*types.Var][]token.Pos // where a variable or a field may get another value after its declaration
	decls   map[*types.Func]*ast.FuncDecl
	ignored map[place][]string // checks that a comment switches off, by line
}

type place struct {
	file string
	line int
}

func newIndexer(api *API) *analysis.Analyzer {
	return &analysis.Analyzer{
		Name:       "fencelockindex",
		Doc:        "find variables, contexts and leases for the other checks",
		Requires:   []*analysis.Analyzer{inspect.Analyzer},
		ResultType: reflect.TypeFor[*index](),
		Run: func(pass *analysis.Pass) (any, error) {
			in := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
			x := &index{api: api, info: pass.TypesInfo, root: in.Root(), skip: !api.near(pass.Pkg)}
			if !x.skip {
				x.build()
				x.readComments(pass)
			}
			return x, nil
		},
	}
}

func (x *index) build() {
	x.assigns = map[*types.Var][]ast.Expr{}
	x.uses = map[*types.Var][]inspector.Cursor{}
	x.decls = map[*types.Func]*ast.FuncDecl{}
	x.readWrites()
	for c := range x.root.Preorder((*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil), (*ast.Ident)(nil), (*ast.FuncDecl)(nil)) {
		switch n := c.Node().(type) {
		case *ast.AssignStmt:
			x.assign(n.Lhs, n.Rhs)
		case *ast.ValueSpec:
			names := make([]ast.Expr, len(n.Names))
			for i, id := range n.Names {
				names[i] = id
			}
			x.assign(names, n.Values)
		case *ast.Ident:
			if v, ok := x.info.Uses[n].(*types.Var); ok {
				x.uses[v.Origin()] = append(x.uses[v.Origin()], c)
			}
		case *ast.FuncDecl:
			if fn, ok := x.info.Defs[n.Name].(*types.Func); ok {
				x.decls[fn] = n
			}
		}
	}
}

func (x *index) assign(lhs, rhs []ast.Expr) {
	for i, l := range lhs {
		v := x.variable(l)
		switch {
		case v == nil || len(rhs) == 0:
		case len(rhs) == len(lhs):
			x.assigns[v] = append(x.assigns[v], rhs[i])
		default:
			x.assigns[v] = append(x.assigns[v], rhs[0])
		}
	}
}

// readWrites collects the writes. A variable whose address is taken may be written from there on.
func (x *index) readWrites() {
	x.writes = map[*types.Var][]token.Pos{}
	for c := range x.root.Preorder((*ast.AssignStmt)(nil), (*ast.IncDecStmt)(nil), (*ast.RangeStmt)(nil), (*ast.UnaryExpr)(nil)) {
		switch n := c.Node().(type) {
		case *ast.AssignStmt:
			x.write(n.Lhs...)
		case *ast.IncDecStmt:
			x.write(n.X)
		case *ast.RangeStmt:
			x.write(n.Key, n.Value)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				x.write(n.X)
			}
		}
	}
}

// write notes that expressions are given other values: variables, fields, and what a pointer points to.
func (x *index) write(exprs ...ast.Expr) {
	for _, e := range exprs {
		if e == nil {
			continue
		}
		e = ast.Unparen(e)
		if star, ok := e.(*ast.StarExpr); ok {
			e = ast.Unparen(star.X)
		}
		id, _ := e.(*ast.Ident)
		if sel, ok := e.(*ast.SelectorExpr); ok {
			id = sel.Sel
		}
		if id == nil {
			continue
		}
		if v, ok := x.info.Uses[id].(*types.Var); ok {
			x.writes[v.Origin()] = append(x.writes[v.Origin()], id.Pos())
		}
	}
}

// written reports whether a variable or a field in an expression gets another value between two places.
func (x *index) written(e ast.Expr, from, to token.Pos) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok || found {
			return !found
		}
		if v, ok := x.info.Uses[id].(*types.Var); ok {
			found = slices.ContainsFunc(x.writes[v.Origin()], func(p token.Pos) bool { return from <= p && p < to })
		}
		return !found
	})
	return found
}

// variable returns the variable that an identifier names, or nil. A blank one names none.
func (x *index) variable(e ast.Expr) *types.Var {
	id, ok := ast.Unparen(e).(*ast.Ident)
	if !ok || id.Name == "_" {
		return nil
	}
	v, _ := x.info.ObjectOf(id).(*types.Var)
	return v
}

// ignorePrefix begins a comment that switches checks off for its line or, if it has a line of its own, for the line
// below it and the comments beside it.
const ignorePrefix = "//fencelock:ignore"

// readComments collects those comments. One without a reason switches nothing off: it would stay when nobody
// knows why it is there.
func (x *index) readComments(pass *analysis.Pass) {
	x.ignored = map[place][]string{}
	for _, f := range pass.Files {
		for _, g := range f.Comments {
			for _, c := range g.List {
				rest, ok := strings.CutPrefix(c.Text, ignorePrefix)
				words := strings.Fields(rest)
				if !ok || len(words) < 2 {
					continue
				}
				at := pass.Fset.Position(c.Pos())
				p := place{at.Filename, at.Line}
				if !behindCode(pass, c.Pos()) {
					p.line = pass.Fset.Position(g.End()).Line + 1
				}
				x.ignored[p] = append(x.ignored[p], strings.Split(words[0], ",")...)
			}
		}
	}
}

// behindCode reports whether a comment has code before it on its line. Such a comment is about that line: below it another lock
// may leak.
func behindCode(pass *analysis.Pass, comment token.Pos) bool {
	file := pass.Fset.File(comment)
	text, err := pass.ReadFile(file.Name())
	if err != nil || len(text) != file.Size() {
		return false
	}
	start := file.Offset(file.LineStart(file.PositionFor(comment, false).Line))
	return len(bytes.TrimSpace(text[start:file.Offset(comment)])) > 0
}

// report reports unless a comment switches the check off there, a program wrote the file, or it is a test.
func (x *index) report(pass *analysis.Pass, d analysis.Diagnostic) {
	at := pass.Fset.Position(d.Pos)
	if inTest(at.Filename) || slices.Contains(x.ignored[place{at.Filename, at.Line}], pass.Analyzer.Name) {
		return
	}
	for _, f := range pass.Files {
		if d.Pos < f.FileStart || f.FileEnd <= d.Pos {
			continue
		}
		if byCgo(f) {
			d.SuggestedFixes = nil // they would be about the file that cgo wrote
		} else if ast.IsGenerated(f) {
			return
		}
	}
	pass.Report(d)
}

// byCgo reports whether a file is what cgo made of one that people wrote: it has the lines of that file, after a
// comment that says that it is generated.
func byCgo(f *ast.File) bool {
	return len(f.Comments) > 0 && f.Comments[0].List[0].Text == "// Code generated by cmd/cgo; DO NOT EDIT."
}

// inTest reports whether a file is a test. A test ends with its client, makes many clients to act as many
// processes, compares tokens to test them, and blocks itself to see what happens: all that is meant. A file of
// examples, example_test.go or example_NAME_test.go, is not a test here, because people copy from it.
func inTest(file string) bool {
	name := filepath.Base(file)
	return strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "example_")
}

// function returns the innermost function that a node is in: a declaration or a literal.
func function(c inspector.Cursor) (inspector.Cursor, bool) {
	for f := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		if f != c {
			return f, true
		}
	}
	return inspector.Cursor{}, false
}

// funcParts returns the type and the body of a function.
func funcParts(n ast.Node) (*ast.FuncType, *ast.BlockStmt) {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return n.Type, n.Body
	case *ast.FuncLit:
		return n.Type, n.Body
	}
	return nil, nil
}

// within reports whether a position is inside a node.
func within(n ast.Node, pos token.Pos) bool { return n.Pos() <= pos && pos < n.End() }
