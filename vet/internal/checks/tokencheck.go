// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

const tokenCheckDoc = `find tokens that no resource checks

A token protects a resource only if the resource compares it, in the same step as the write. A comparison in Go
happens before the write: the process can be paused in between.

	if l.Token() < row.Fence { // compare in the UPDATE: ... WHERE id = $1 AND fence <= $2
		return errStale
	}
	return save(ctx, row)

Reported are comparisons of order in functions that give the token to nothing else, and tokens that are only printed
where a statement of database/sql writes without them. Transactions that are given to a function, as guards do, and packages
that import guards are left alone.`

func newTokenCheck(indexer *analysis.Analyzer) *analysis.Analyzer {
	return newCheck("tokencheck", tokenCheckDoc, indexer, func(pass *analysis.Pass, x *index) {
		if strings.HasPrefix(pass.Pkg.Path(), path+"/fence") || pass.Pkg.Path() == path {
			return
		}
		t := &tokens{pass: pass, index: x}
		for c := range x.root.Preorder((*ast.FuncDecl)(nil)) {
			t.check(c)
		}
	})
}

// tokens is one run of the check.
type tokens struct {
	*index
	pass *analysis.Pass
}

// fate is what becomes of a token at one place.
type fate uint8

const (
	unused   fate = iota // nothing, or it is compared for equality
	printed              // shown to people
	compared             // by order, in Go
	given                // to something that may check it
)

func (t *tokens) check(fn inspector.Cursor) {
	fates := map[fate][]ast.Node{}
	for c := range fn.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		if calls(t.info, call, t.api.Tokens) {
			t.follow(c, fates, 0)
		}
	}
	if len(fates[given]) > 0 {
		return
	}
	for _, n := range fates[compared] {
		t.report(t.pass, analysis.Diagnostic{Pos: n.Pos(), End: n.End(),
			Message: "the token is compared in Go, before the write: the process can be paused in between; let the resource compare it in the same step"})
	}
	if len(fates[compared]) > 0 || len(fates[printed]) == 0 || importsGuards(t.pass.Pkg) {
		return
	}
	if w := t.unguarded(fn); w != nil {
		n := fates[printed][0]
		t.report(t.pass, analysis.Diagnostic{Pos: n.Pos(), End: n.End(),
			Message: "the token is printed, and " + t.text(w.Fun) + " writes without it: give it to the statement, or use a guard of package fence",
			Related: []analysis.RelatedInformation{{Pos: w.Pos(), Message: "this statement does not check the token"}}})
	}
}

// follow adds what becomes of a token, through conversions and variables that are set once.
func (t *tokens) follow(c inspector.Cursor, fates map[fate][]ast.Node, depth int) {
	p := c.Parent()
	switch n := p.Node().(type) {
	case *ast.ParenExpr:
		t.follow(p, fates, depth)
		return
	case *ast.CallExpr:
		if t.info.Types[n.Fun].IsType() {
			t.follow(p, fates, depth)
			return
		}
		if prints(callee(t.info, n)) || t.isAttr(n) {
			fates[printed] = append(fates[printed], c.Node())
			return
		}
	case *ast.BinaryExpr:
		switch n.Op {
		case token.LSS, token.GTR, token.LEQ, token.GEQ:
			if !t.isConstant(n) && !t.bothTokens(n) && decides(p) {
				fates[compared] = append(fates[compared], n)
			}
			return
		case token.EQL, token.NEQ:
			return
		}
	case *ast.AssignStmt:
		if t.followVariable(n, c, fates, depth) {
			return
		}
	case *ast.ExprStmt:
		return
	}
	fates[given] = append(fates[given], c.Node())
}

func (t *tokens) followVariable(n *ast.AssignStmt, c inspector.Cursor, fates map[fate][]ast.Node, depth int) bool {
	i := slices.Index(n.Rhs, c.Node().(ast.Expr))
	if i < 0 || len(n.Lhs) != len(n.Rhs) {
		return false
	}
	if id, ok := n.Lhs[i].(*ast.Ident); ok && id.Name == "_" {
		return true
	}
	v := t.variable(n.Lhs[i])
	if v == nil || v.Parent() == v.Pkg().Scope() || len(t.assigns[v]) != 1 || depth > 3 {
		return false
	}
	for _, u := range t.uses[v] {
		t.follow(u, fates, depth+1)
	}
	return true
}

// isAttr reports whether a call makes an attribute for a log.
func (t *tokens) isAttr(call *ast.CallExpr) bool {
	return calleePath(callee(t.info, call)) == "log/slog"
}

// bothTokens reports whether the tokens of two leases are compared: neither is that of a resource.
func (t *tokens) bothTokens(b *ast.BinaryExpr) bool {
	isToken := func(e ast.Expr) bool {
		call, ok := ast.Unparen(e).(*ast.CallExpr)
		return ok && calls(t.info, call, t.api.Tokens)
	}
	return isToken(b.X) && isToken(b.Y)
}

// decides reports whether a comparison chooses what the program does, and is not only shown or kept.
func decides(c inspector.Cursor) bool {
	for {
		p := c.Parent()
		switch n := p.Node().(type) {
		case *ast.ParenExpr, *ast.BinaryExpr, *ast.UnaryExpr:
			c = p
			continue
		case *ast.IfStmt:
			return n.Cond == c.Node()
		case *ast.ForStmt:
			return n.Cond == c.Node()
		case *ast.CaseClause, *ast.ReturnStmt:
			return true
		}
		return false
	}
}

func (t *tokens) isConstant(b *ast.BinaryExpr) bool {
	return t.info.Types[b.X].Value != nil || t.info.Types[b.Y].Value != nil
}

// unguarded returns a statement of database/sql that writes and is not given the token. A context of a lease may
// lead a guard to the token in other packages; database/sql does not look there.
func (t *tokens) unguarded(fn inspector.Cursor) *ast.CallExpr {
	for c := range fn.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		f := callee(t.info, call)
		if f == nil || f.Signature().Recv() == nil || !strings.HasPrefix(f.Name(), "Exec") {
			continue
		}
		switch t.recv(f) {
		case "database/sql.DB", "database/sql.Tx", "database/sql.Conn", "database/sql.Stmt":
			if !t.fromGuard(fn, call) {
				return call
			}
		}
	}
	return nil
}

// fromGuard reports whether a guard may have made the transaction of a statement: the transaction is a parameter of a function
// literal, or of the function itself, and whoever calls that has checked the token.
func (t *tokens) fromGuard(fn inspector.Cursor, call *ast.CallExpr) bool {
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	v := t.variable(sel.X)
	if v == nil || t.recv(callee(t.info, call)) == "database/sql.DB" {
		return false
	}
	for c := range fn.Preorder((*ast.FuncType)(nil)) {
		if within(c.Node(), v.Pos()) {
			return true
		}
	}
	return false
}

// importsGuards reports whether a package uses guards of package fence: then a statement may be guarded in a way that is not seen here.
func importsGuards(pkg *types.Package) bool {
	return slices.ContainsFunc(pkg.Imports(), func(p *types.Package) bool { return strings.HasPrefix(p.Path(), path+"/fence") })
}

func (t *tokens) recv(f *types.Func) string { return named(f.Signature().Recv().Type()) }
