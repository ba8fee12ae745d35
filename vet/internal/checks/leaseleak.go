// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/cfg"
)

const leaseLeakDoc = `find leases that are not unlocked on some path

A lease lasts until it is unlocked: nothing else gives the lock back while the process runs.

	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	if done() {
		return nil // the lock stays taken
	}
	return l.Unlock(ctx)

A lease that is returned, stored or given to another function is left alone, and so is one with
MaxHold, and one whose client is closed in the same function.`

func newLeaseLeak(indexer *analysis.Analyzer) *analysis.Analyzer {
	return newCheck("leaseleak", leaseLeakDoc, indexer, func(pass *analysis.Pass, x *index) {
		l := &leaks{pass: pass, index: x, wrappers: map[*types.Func]bool{}}
		l.findWrappers()
		for _, a := range x.acquisitions(l.isWrapper) {
			l.check(a)
		}
	})
}

// leaks is one run of the check.
type leaks struct {
	*index
	pass     *analysis.Pass
	wrappers map[*types.Func]bool
}

// acquiring are names of functions without a body here, those of other packages and methods of interfaces, that pass on the duty to unlock, if they return a lease and an
// error. Facts about their bodies would be surer, but with facts every package that a program is made of has to be
// analyzed, down to the standard library.
var acquiring = regexp.MustCompile(`^(Try)?(R?Lock|Acquire|Obtain|Take|Claim|Hold)`)

func (l *leaks) isWrapper(fn *types.Func) bool {
	res := fn.Signature().Results()
	if fn.Pkg() == l.pass.Pkg && l.decls[fn] != nil || slices.Contains(l.api.Paths, calleePath(fn)) {
		return l.wrappers[fn]
	}
	return res.Len() == 2 && isError(res.At(1).Type()) && acquiring.MatchString(fn.Name())
}

// findWrappers finds the functions of this package, until no more are found: one may wrap another.
func (l *leaks) findWrappers() {
	for found := true; found; {
		found = false
		for fn, decl := range l.decls {
			if !l.wrappers[fn] && l.wraps(fn, decl) {
				l.wrappers[fn], found = true, true
			}
		}
	}
}

// wraps reports whether each lease that a function returns is one that it acquired. A function that
// returns a lease from a field does not pass on the duty to unlock it, and one that returns more than a lease and an error
// may return a function that unlocks.
func (l *leaks) wraps(fn *types.Func, decl *ast.FuncDecl) bool {
	res := fn.Signature().Results()
	if decl.Body == nil || res.Len() == 0 || res.Len() > 2 || res.Len() == 2 && !isError(res.At(1).Type()) || !l.api.isLease(res.At(0).Type()) {
		return false
	}
	all, some := true, false
	ast.Inspect(decl.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			if len(n.Results) == 0 {
				all = false
				return true
			}
			got, isNil := l.acquired(n.Results[0])
			all, some = all && (got || isNil), some || got
		}
		return true
	})
	return all && some
}

// acquired reports whether an expression is a lease that this function acquired, or nil.
func (l *leaks) acquired(e ast.Expr) (got, isNil bool) {
	switch e := ast.Unparen(e).(type) {
	case *ast.CallExpr:
		return l.acquires(e, l.isWrapper), false
	case *ast.Ident:
		if l.info.Types[e].IsNil() {
			return false, true
		}
		v := l.variable(e)
		if v == nil || len(l.assigns[v]) == 0 {
			return false, false
		}
		for _, from := range l.assigns[v] {
			call, ok := ast.Unparen(from).(*ast.CallExpr)
			if !ok || !l.acquires(call, l.isWrapper) {
				return false, false
			}
		}
		return true, false
	}
	return false, false
}

func (l *leaks) check(a acquisition) {
	if l.bounded(a) {
		return
	}
	if a.drop && !l.surelyBusy(a) {
		l.report(l.pass, analysis.Diagnostic{Pos: a.call.Pos(), End: a.call.End(), Message: fmt.Sprintf(
			"the lease of %s is dropped: nobody can unlock it, and the lock stays taken as long as this process runs", l.text(a.call.Fun))})
	}
	fn, ok := function(a.at)
	if !ok || a.drop || a.lease == nil || !l.api.isLease(a.lease.Type()) || a.lease.Pkg() == nil || a.lease.Parent() == a.lease.Pkg().Scope() || l.elsewhere(fn.Node(), a) {
		return
	}
	_, body := funcParts(fn.Node())
	s := newSearch(l.index, fn.Node(), a)
	if exit := s.run(cfg.New(body, s.mayReturn)); exit != nil {
		l.complain(a, s, exit)
	}
}

// elsewhere reports whether the lease is not this function's alone: the variable belongs to a function around
// it, is a named result, or a function that stands before the acquisition unlocks it later.
func (l *leaks) elsewhere(fn ast.Node, a acquisition) bool {
	typ, _ := funcParts(fn)
	if !within(fn, a.lease.Pos()) || within(typ, a.lease.Pos()) {
		return true
	}
	for _, c := range l.uses[a.lease] {
		u := l.useOf(c)
		lit, ok := function(c)
		if (u == ended || u == passed) && ok && lit.Node() != fn && lit.Node().Pos() < a.call.Pos() {
			return true
		}
	}
	return false
}

// bounded reports whether the lease ends without an unlock: by MaxHold, or because its function closes a client.
func (l *leaks) bounded(a acquisition) bool {
	if sel, ok := ast.Unparen(a.call.Fun).(*ast.SelectorExpr); ok && l.maxHold(sel.X) {
		return true
	}
	if l.maxHold(a.call) { // an option of LockAll
		return true
	}
	fn, ok := function(a.at)
	if !ok {
		return false
	}
	for c := range fn.Preorder((*ast.CallExpr)(nil)) {
		if calls(l.info, c.Node().(*ast.CallExpr), l.api.Close) {
			return true
		}
	}
	return false
}

// maxHold reports whether an expression mentions MaxHold, or what its variables and fields are set to does: a handle
// with its options is often made elsewhere. Of s.mu only the field counts, because s may have other handles.
func (l *leaks) maxHold(e ast.Expr) bool {
	found := false
	seen := map[*types.Var]bool{}
	var look func(n ast.Node) bool
	look = func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		sel, isSel := n.(*ast.SelectorExpr)
		if isSel && l.info.Selections[sel] != nil && l.info.Selections[sel].Kind() == types.FieldVal {
			id, ok = sel.Sel, true
		}
		if !ok || found {
			return !found
		}
		found = id.Name == "MaxHold"
		if v, ok := l.info.ObjectOf(id).(*types.Var); ok && !found && !seen[v] && !l.api.isLease(v.Type()) {
			seen[v] = true
			for _, from := range l.values(v) {
				ast.Inspect(from, look)
			}
		}
		return !found && !isSel
	}
	ast.Inspect(e, look)
	return found
}

// values returns what a variable or a field is set to in this package.
func (l *leaks) values(v *types.Var) []ast.Expr {
	list := slices.Clone(l.assigns[v])
	if !v.IsField() {
		return list
	}
	for _, c := range l.uses[v.Origin()] {
		switch n := c.Parent().Node().(type) {
		case *ast.KeyValueExpr:
			if n.Key == c.Node() {
				list = append(list, n.Value)
			}
		case *ast.SelectorExpr:
			if a, ok := c.Parent().Parent().Node().(*ast.AssignStmt); ok {
				if i := slices.Index(a.Lhs, ast.Expr(n)); i >= 0 && len(a.Lhs) == len(a.Rhs) {
					list = append(list, a.Rhs[i])
				}
			}
		}
	}
	return list
}

// surelyBusy reports whether TryLock asks for a lock that a function around it holds: there is no lease to drop.
func (l *leaks) surelyBusy(a acquisition) bool {
	id, ok := l.lockOf(a.call)
	if !ok || !id.try {
		return false
	}
	for _, s := range l.scopes() {
		if outer, ok := l.lockOf(s.call); ok && within(s.lit, a.call.Pos()) && outer.name == id.name {
			return true
		}
	}
	return false
}

func (l *leaks) complain(a acquisition, s *search, exit ast.Node) {
	line := l.pass.Fset.Position(exit.Pos()).Line
	how := fmt.Sprintf("line %d leaves the function with the lock held", line)
	if exit == a.stmt {
		how = "the next acquisition overwrites it"
	} else if _, ok := exit.(*ast.AssignStmt); ok {
		how = fmt.Sprintf("line %d overwrites it", line)
	}
	d := analysis.Diagnostic{
		Pos: a.call.Pos(), End: a.call.End(),
		Message: fmt.Sprintf("the lease %s is not unlocked on every path: %s", a.lease.Name(), how),
		Related: []analysis.RelatedInformation{{Pos: exit.Pos(), Message: "here the lease is still held"}},
	}
	if !s.ends {
		d.SuggestedFixes = l.deferUnlock(a)
	}
	l.report(l.pass, d)
}

// deferUnlock is safe where the function ends the lease nowhere and the statement after the acquisition
// leaves the function on an error.
func (l *leaks) deferUnlock(a acquisition) []analysis.SuggestedFix {
	next, ok := a.at.Parent().NextSibling()
	if !ok || len(a.call.Args) == 0 {
		return nil
	}
	check, ok := next.Node().(*ast.IfStmt)
	if !ok || check.Init != nil || check.Else != nil || len(check.Body.List) == 0 || !isNotNil(l.index, check.Cond, a.err) {
		return nil
	}
	switch check.Body.List[len(check.Body.List)-1].(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
	default:
		return nil
	}
	if loop := enclosingLoop(a.at); loop != nil {
		return nil // a defer would run at the end of the function, not of the round
	}
	ctx := ast.Unparen(a.call.Args[0])
	if _, ok := ctx.(*ast.Ident); !ok {
		return nil
	}
	text := fmt.Sprintf("\ndefer %s.Unlock(%s)", a.lease.Name(), l.text(ctx))
	return []analysis.SuggestedFix{{
		Message:   "unlock the lease when the function ends",
		TextEdits: []analysis.TextEdit{{Pos: check.End(), End: check.End(), NewText: []byte(text)}},
	}}
}

// isNotNil reports whether a condition is "v != nil".
func isNotNil(x *index, cond ast.Expr, v *types.Var) bool {
	b, ok := ast.Unparen(cond).(*ast.BinaryExpr)
	return ok && v != nil && b.Op == token.NEQ && x.variable(b.X) == v && x.info.Types[b.Y].IsNil()
}

// enclosingLoop returns the innermost loop of the same function around a node, or nil.
func enclosingLoop(c inspector.Cursor) ast.Node {
	for p := range c.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil), (*ast.FuncDecl)(nil)) {
		switch n := p.Node().(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			return n
		default:
			if p != c {
				return nil
			}
		}
	}
	return nil
}
