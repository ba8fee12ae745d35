// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

const selfLockDoc = `find locks that wait for themselves

Locks are re-entrant by context: a lock of the same name under another context waits for a lease that the same
goroutine holds.

	locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		return locks.Do(ctx, "a", work) // waits for itself; use held
	})

The same is found between Lock and Unlock. Readers inside readers, TryLock, semaphores and locks with ReentrantAs are
left alone.`

func newSelfLock(indexer *analysis.Analyzer) *analysis.Analyzer {
	return newCheck("selflock", selfLockDoc, indexer, func(pass *analysis.Pass, x *index) {
		all := x.scopes()
		for _, s := range all {
			x.selfLocks(pass, s, all)
		}
		for _, a := range x.acquisitions(nil) {
			x.selfLocksBetween(pass, a)
		}
	})
}

// A lockID names a lock as the source does.
type lockID struct {
	key    string
	shared bool
	try    bool
	name   string     // for people
	names  []ast.Expr // what the key was made from
}

// lockOf returns the lock that a call is about. Two calls with the same key lock the same name on the same client.
func (x *index) lockOf(call *ast.CallExpr) (lockID, bool) {
	fn := callee(x.info, call)
	if fn == nil {
		return lockID{}, false
	}
	l, ok := x.api.Locks[fn.FullName()]
	sel, isSel := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok || !isSel || x.info.Types[sel.X].IsType() { // (*Mutex).Lock(mu, ctx): the lock is an argument
		return lockID{}, false
	}
	id := lockID{shared: l.Shared, try: l.Try}
	if l.Name >= 0 && l.Name < len(call.Args) {
		id.key, id.name = x.lockKey(sel.X, call.Args[l.Name]), x.text(call.Args[l.Name])
		id.names = []ast.Expr{sel.X, call.Args[l.Name]}
		return id, id.key != ""
	}
	handle := ast.Unparen(sel.X)
	if v := x.variable(handle); v != nil && len(x.assigns[v]) == 1 && v.Kind() != types.ParamVar {
		handle = ast.Unparen(x.assigns[v][0])
	}
	if made, ok := handle.(*ast.CallExpr); ok { // client.Mutex(name, options...)
		at, ok := ast.Unparen(made.Fun).(*ast.SelectorExpr)
		if !ok || len(made.Args) == 0 || mentions(made, "ReentrantAs") || callee(x.info, made) == nil || calleePath(callee(x.info, made)) != calleePath(fn) {
			return lockID{}, false
		}
		id.key, id.name = x.lockKey(at.X, made.Args[0]), x.text(made.Args[0])
		id.names = []ast.Expr{at.X, made.Args[0]}
		return id, id.key != ""
	}
	id.key, id.name, id.names = x.key(handle), "of "+x.text(handle), []ast.Expr{handle}
	return id, id.key != "" && x.steady(handle)
}

// lockKey is empty for names that may have another value at the second place.
func (x *index) lockKey(client, name ast.Expr) string {
	if tv := x.info.Types[name]; tv.Value != nil {
		return x.key(client) + "/" + tv.Value.ExactString()
	}
	if !x.steady(client) || !x.steady(name) {
		return ""
	}
	return x.key(client) + "/" + x.key(name)
}

// steady reports whether an expression has the same value at two places close together: it has variables that are
// set once, fields, literals, and calls of functions that only compute.
func (x *index) steady(e ast.Expr) bool {
	ok := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if tv := x.info.Types[n.Fun]; tv.IsType() {
				return true
			}
			switch calleePath(callee(x.info, n)) {
			case "fmt", "strconv", "strings", "path":
			default:
				ok = false
			}
		case *ast.FuncLit, *ast.IndexExpr:
			ok = false
		case *ast.Ident:
			if v := x.variable(n); v != nil && len(x.assigns[v]) > 1 {
				ok = false
			}
		}
		return ok
	})
	return ok
}

func mentions(n ast.Node, name string) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return !found
	})
	return found
}

// conflicts reports whether the second lock waits for the first.
func conflicts(first, second lockID) bool {
	return first.key == second.key && !(first.shared && second.shared) && !second.try
}

func (x *index) selfLocks(pass *analysis.Pass, s *scope, all []*scope) {
	for c := range s.at.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		if within(s.lit.Body, call.Pos()) && x.waitsInside(s, c, call) {
			x.reportSelfLock(pass, s, innermost(all, call), call)
		}
	}
}

// waitsForItself is selfLocks for one call, for the other check that would report it.
func (x *index) waitsForItself(all []*scope, call *ast.CallExpr) bool {
	return slices.ContainsFunc(all, func(s *scope) bool {
		c, ok := s.at.FindNode(call)
		return ok && x.waitsInside(s, c, call)
	})
}

func (x *index) waitsInside(s *scope, c inspector.Cursor, call *ast.CallExpr) bool {
	first, ok := x.lockOf(s.call)
	second, ok2 := x.lockOf(call)
	if !ok || !ok2 || !conflicts(first, second) || len(call.Args) == 0 || !x.sameGoroutine(s.lit, c) || x.renamed(first, s.lit.Pos(), s.lit.End()) {
		return false
	}
	return !x.derived(call.Args[0], s.lit, map[*types.Var]bool{s.inner: true, s.lease: true}, map[*types.Var]bool{})
}

// renamed reports whether what names a lock gets another value between two places: the second lock may be that of the
// parent, or of the next shard. The places are the first lock and the end of its function, not the second lock, because
// the second one may be in a loop and the write behind it.
func (x *index) renamed(id lockID, from, to token.Pos) bool {
	return slices.ContainsFunc(id.names, func(e ast.Expr) bool { return x.written(e, from, to) })
}

// sameGoroutine reports whether a call runs while the function around it does: not in a goroutine, and not in a
// function literal that somebody may call later. The literals of nested locks are called at once.
func (x *index) sameGoroutine(fn ast.Node, c inspector.Cursor) bool {
	for p := range c.Enclosing((*ast.GoStmt)(nil), (*ast.DeferStmt)(nil), (*ast.FuncLit)(nil), (*ast.FuncDecl)(nil)) {
		switch n := p.Node().(type) {
		case *ast.GoStmt, *ast.DeferStmt:
			return false
		case *ast.FuncDecl:
			return n == fn
		case *ast.FuncLit:
			if n == fn {
				return true
			}
			call := x.takenBy(p)
			if call == nil {
				direct, ok := p.Parent().Node().(*ast.CallExpr)
				if !ok || direct.Fun != n {
					return false
				}
				continue
			}
			if _, ok := x.lockOf(call); !ok {
				return false
			}
		}
	}
	return false
}

// derived reports whether a context is made from one of the seeds, as far as one sees. A variable of the
// function itself whose origin is not plain counts as derived. Each variable is looked at once: where one is set n times from
// itself there are n ways to each depth.
func (x *index) derived(e ast.Expr, fn ast.Node, seeds, seen map[*types.Var]bool) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok || found {
			return !found
		}
		v := x.variable(id)
		if v == nil || seen[v] {
			return true
		}
		seen[v] = true
		if found = seeds[v]; found || !within(fn, v.Pos()) {
			return !found
		}
		from := x.assigns[v]
		if len(from) == 0 {
			found = isContext(v.Type()) // a parameter
		}
		for _, f := range from {
			found = found || x.derived(f, fn, seeds, seen)
		}
		return !found
	})
	return found
}

// reportSelfLock advises to use the context of the innermost function, which carries the leases of all around it.
func (x *index) reportSelfLock(pass *analysis.Pass, s, in *scope, call *ast.CallExpr) {
	d := selfLockDiagnostic(x, call)
	first, _ := x.lockOf(s.call)
	switch {
	case first.shared:
		d.Message += ": unlock the read lock first"
	case in.inner == nil:
		d.Message += ": use the context of the function"
	default:
		d.Message += ": use " + in.inner.Name()
		arg := ast.Unparen(call.Args[0])
		if x.detached(arg) || x.relate(arg, s.outer, nil) == same {
			d.SuggestedFixes = x.useInner(pass, in, arg, "re-enter the lock with ")
		}
	}
	x.report(pass, d)
}

// useInner replaces a context by that of the function, if its name means that there.
func (x *index) useInner(pass *analysis.Pass, s *scope, e ast.Expr, why string) []analysis.SuggestedFix {
	at := pass.Pkg.Scope().Innermost(e.Pos())
	if at == nil {
		return nil
	}
	if _, obj := at.LookupParent(s.inner.Name(), e.Pos()); obj != s.inner {
		return nil
	}
	return []analysis.SuggestedFix{{
		Message:   why + s.inner.Name(),
		TextEdits: []analysis.TextEdit{{Pos: e.Pos(), End: e.End(), NewText: []byte(s.inner.Name())}},
	}}
}

func selfLockDiagnostic(x *index, call *ast.CallExpr) analysis.Diagnostic {
	id, _ := x.lockOf(call)
	return analysis.Diagnostic{
		Pos: call.Pos(), End: call.End(),
		Message: fmt.Sprintf("the lock %s is held here, and under another context %s waits for itself", id.name, x.text(call.Fun)),
	}
}

// selfLocksBetween looks at the statements after an acquisition, up to the unlock.
func (x *index) selfLocksBetween(pass *analysis.Pass, a acquisition) {
	first, ok := x.lockOf(a.call)
	fn, ok2 := function(a.at)
	if !ok || !ok2 || a.lease == nil || a.drop {
		return
	}
	if loop := enclosingLoop(a.at); loop != nil && x.deferred(a.lease, loop) && x.sameEachRound(first.names, loop) && !first.shared && !first.try && !leaves(x, loopBody(loop)) {
		d := selfLockDiagnostic(x, a.call)
		d.Message = fmt.Sprintf("the defer in this loop unlocks the lock %s at the end of the function: the next round waits for itself", first.name)
		x.report(pass, d)
		return
	}
	for next, ok := a.at.Parent().NextSibling(); ok; next, ok = next.NextSibling() {
		if x.endsLease(next, a.lease) {
			return
		}
		for c := range next.Preorder((*ast.CallExpr)(nil)) {
			call := c.Node().(*ast.CallExpr)
			second, ok := x.lockOf(call)
			if !ok || !conflicts(first, second) || !x.sameGoroutine(fn.Node(), c) || x.onFailure(a, c) || x.renamed(first, a.call.End(), fn.Node().End()) {
				continue
			}
			if !x.derived(call.Args[0], fn.Node(), map[*types.Var]bool{a.lease: true}, map[*types.Var]bool{}) || x.sameArgument(a.call, call) {
				d := selfLockDiagnostic(x, call)
				d.Message += fmt.Sprintf(": use %s.Context()", a.lease.Name())
				x.report(pass, d)
			}
		}
	}
}

// deferred reports whether a defer in the loop, and nothing else, ends the lease.
func (x *index) deferred(lease *types.Var, loop ast.Node) bool {
	found := false
	for _, c := range x.uses[lease] {
		switch x.useOf(c) {
		case ended:
			_, ok := c.Parent().Parent().Parent().Node().(*ast.DeferStmt)
			if !ok || !within(loop, c.Node().Pos()) {
				return false
			}
			found = true
		case passed:
			return false
		}
	}
	return found
}

// sameArgument reports whether both calls were given the same context, which then has no lease.
func (x *index) sameArgument(a, b *ast.CallExpr) bool {
	v := x.variable(a.Args[0])
	setLater := func(e ast.Expr) bool { return e.Pos() > a.Pos() }
	return v != nil && v == x.variable(b.Args[0]) && !slices.ContainsFunc(x.assigns[v], setLater)
}

// endsLease reports whether a statement unlocks the lease or passes it on, other than at the end of the function.
func (x *index) endsLease(stmt inspector.Cursor, lease *types.Var) bool {
	if _, ok := stmt.Node().(*ast.DeferStmt); ok {
		return false
	}
	for _, c := range x.uses[lease] {
		if !within(stmt.Node(), c.Node().Pos()) {
			continue
		}
		if u := x.useOf(c); u == ended || u == passed {
			return true
		}
	}
	return false
}

// onFailure reports whether a call is in the branch where the acquisition failed, as far as one sees.
func (x *index) onFailure(a acquisition, c inspector.Cursor) bool {
	for p := range c.Enclosing((*ast.IfStmt)(nil), (*ast.SwitchStmt)(nil)) {
		n, isIf := p.Node().(*ast.IfStmt)
		switch {
		case isIf && n.Init == a.stmt: // if l, err = mu.TryLock(ctx); err != nil { l, err = mu.Lock(ctx) }
			return true
		case p.Node().Pos() < a.call.Pos():
			return false
		case !isIf || mentionsVar(x, n.Cond, a.err) || mentionsVar(x, n.Cond, a.lease):
			return true
		}
	}
	return false
}

func mentionsVar(x *index, e ast.Expr, v *types.Var) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && v != nil && x.variable(id) == v
		return !found
	})
	return found
}

// text returns an expression in short.
func (x *index) text(e ast.Expr) string { return types.ExprString(e) }
