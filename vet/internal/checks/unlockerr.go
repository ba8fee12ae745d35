// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

const unlockErrorDoc = `find unlocks whose error nobody sees

The error of Unlock wraps ErrLost if another process may have held the lock before the work was done. If a function
looks neither at it nor at the context, the token or the state of the lease, it reports success for such work.

	defer l.Unlock(ctx) // return the error, or work with l.Context()
	return work(ctx)

Only functions that return an error are checked. "_ = l.Unlock(ctx)" is left alone, and so is an unlock
on the way out with another error, and a lock that the function can do without.`

func newUnlockError(indexer *analysis.Analyzer) *analysis.Analyzer {
	return newCheck("unlockerr", unlockErrorDoc, indexer, func(pass *analysis.Pass, x *index) {
		for _, a := range x.acquisitions(nil) {
			fn, ok := function(a.at)
			if ok && a.lease != nil && within(fn.Node(), a.lease.Pos()) && x.blind(a.lease) && !x.optional(a.lease) {
				x.unlockErrors(pass, a, fn.Node())
			}
		}
	})
}

func (x *index) unlockErrors(pass *analysis.Pass, a acquisition, fn ast.Node) {
	typ, _ := funcParts(fn)
	if !lastIsError(x, typ) {
		return
	}
	var dropped []inspector.Cursor
	for _, c := range x.uses[a.lease] {
		if x.useOf(c) != ended {
			continue
		}
		stmt := c.Parent().Parent().Parent() // ident, selector, call, statement
		switch stmt.Node().(type) {
		case *ast.ExprStmt, *ast.DeferStmt:
		default:
			return // somebody looks at one of them, or says that nobody needs to
		}
		if _, ok := stmt.Node().(*ast.ExprStmt); ok && x.failing(stmt) || x.inGoroutine(c) || !x.worked(a, fn, stmt.Node()) {
			continue // what is in a goroutine is for leasectx
		}
		dropped = append(dropped, stmt)
	}
	for _, stmt := range dropped {
		x.report(pass, analysis.Diagnostic{
			Pos: stmt.Node().Pos(), End: stmt.Node().End(),
			Message: fmt.Sprintf("the error of %s.Unlock is dropped: if the lease was lost, the function returns as if it had not been; "+
				"return the error, or work with the context of the lease", a.lease.Name()),
			SuggestedFixes: x.returnUnlock(pass, stmt),
		})
	}
}

// optional reports whether the function goes on without the lock: it compares the lease with nil.
func (x *index) optional(lease *types.Var) bool {
	return slices.ContainsFunc(x.uses[lease], func(c inspector.Cursor) bool {
		_, ok := c.Parent().Node().(*ast.BinaryExpr)
		return ok
	})
}

// worked reports whether anything is done under the lock: a call between the acquisition and the unlock, or after a
// deferred unlock. Without work the loss of the lease means nothing.
func (x *index) worked(a acquisition, fn, unlock ast.Node) bool {
	from, to := a.call.End(), unlock.Pos()
	if _, ok := unlock.(*ast.DeferStmt); ok || !x.sameBody(fn, unlock) {
		from, to = unlock.End(), fn.End()
	}
	found := false
	ast.Inspect(fn, func(n ast.Node) bool {
		if check, ok := n.(*ast.IfStmt); ok && check.Else == nil && isNotNil(x, check.Cond, a.err) {
			return false // there is no lock
		}
		call, ok := n.(*ast.CallExpr)
		if !ok || found || call.Pos() < from || call.Pos() >= to || x.info.Types[call.Fun].IsType() || x.info.Types[call.Fun].IsBuiltin() {
			return !found
		}
		sel, isSel := ast.Unparen(call.Fun).(*ast.SelectorExpr)
		switch from := calleePath(callee(x.info, call)); {
		case from == "errors" || from == "fmt", isSel && x.variable(sel.X) == a.lease:
		default:
			found = true
		}
		return !found
	})
	return found
}

// sameBody reports whether a statement is in the function itself and not in a literal of it.
func (x *index) sameBody(fn, stmt ast.Node) bool {
	c, ok := x.root.FindNode(stmt)
	if !ok {
		return false
	}
	in, ok := function(c)
	return ok && in.Node() == fn
}

func (x *index) inGoroutine(c inspector.Cursor) bool {
	for p := range c.Enclosing((*ast.GoStmt)(nil), (*ast.FuncLit)(nil)) {
		if _, ok := p.Node().(*ast.GoStmt); ok {
			return true
		}
		if call := x.takenBy(p); call != nil && goes(call) {
			return true
		}
	}
	return false
}

// goes reports whether a call is a method Go, as that of errgroup and sync.WaitGroup.
func goes(call *ast.CallExpr) bool {
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Go" && len(call.Args) == 1
}

func lastIsError(x *index, typ *ast.FuncType) bool {
	if typ.Results == nil || len(typ.Results.List) == 0 {
		return false
	}
	t := x.info.TypeOf(typ.Results.List[len(typ.Results.List)-1].Type)
	return t != nil && isError(t)
}

// failing reports whether the statements after an unlock return an error that is not nil, as far as one sees: the
// caller learns already that the work failed.
func (x *index) failing(stmt inspector.Cursor) bool {
	last := stmt
	for next, ok := stmt.NextSibling(); ok; next, ok = next.NextSibling() {
		last = next
	}
	switch n := last.Node().(type) {
	case *ast.ReturnStmt:
		if len(n.Results) == 0 {
			return true // not known
		}
		e := ast.Unparen(n.Results[len(n.Results)-1])
		if x.info.Types[e].IsNil() {
			return false
		}
		_, isCall := e.(*ast.CallExpr)
		return isCall || x.testedNotNil(stmt, e)
	case *ast.BranchStmt:
		return true
	}
	return false
}

// testedNotNil reports whether an if around a statement says that a variable is not nil.
func (x *index) testedNotNil(stmt inspector.Cursor, e ast.Expr) bool {
	v := x.variable(e)
	if v == nil {
		return true // a value of its own, such as ErrStale
	}
	if v.Pkg() != nil && v.Parent() == v.Pkg().Scope() {
		return true
	}
	for p := range stmt.Enclosing((*ast.IfStmt)(nil), (*ast.CaseClause)(nil)) {
		if n, ok := p.Node().(*ast.IfStmt); !ok || mentionsVar(x, n.Cond, v) {
			return true
		}
	}
	return false
}

// returnUnlock turns "l.Unlock(ctx); return nil" into "return l.Unlock(ctx)", in functions with one result, an error.
func (x *index) returnUnlock(pass *analysis.Pass, stmt inspector.Cursor) []analysis.SuggestedFix {
	s, ok := stmt.Node().(*ast.ExprStmt)
	next, ok2 := stmt.NextSibling()
	fn, ok3 := function(stmt) // a literal that returns something else, maybe
	if !ok || !ok2 || !ok3 {
		return nil
	}
	typ, _ := funcParts(fn.Node())
	ret, ok := next.Node().(*ast.ReturnStmt)
	if !ok || len(ret.Results) != 1 || !x.info.Types[ret.Results[0]].IsNil() || !lastIsError(x, typ) {
		return nil
	}
	from, to, ok := lineOf(pass, ret)
	if !ok {
		return nil
	}
	return []analysis.SuggestedFix{{
		Message: "return the error of Unlock",
		TextEdits: []analysis.TextEdit{
			{Pos: s.Pos(), End: s.Pos(), NewText: []byte("return ")},
			{Pos: from, End: to}, // what is between, such as a comment, stays
		},
	}}
}

// lineOf returns the line of a statement that has nothing else on its line, such as a comment or a brace. It counts the
// lines of the file itself: a line directive names those of another.
func lineOf(pass *analysis.Pass, stmt ast.Stmt) (from, to token.Pos, ok bool) {
	file := pass.Fset.File(stmt.Pos())
	line := file.PositionFor(stmt.Pos(), false).Line
	text, err := pass.ReadFile(file.Name())
	if err != nil || line == file.LineCount() || len(text) != file.Size() {
		return token.NoPos, token.NoPos, false
	}
	from, to = file.LineStart(line), file.LineStart(line+1)
	before, after := text[file.Offset(from):file.Offset(stmt.Pos())], text[file.Offset(stmt.End()):file.Offset(to)]
	return from, to, len(bytes.TrimSpace(before)) == 0 && len(bytes.TrimSpace(after)) == 0
}
