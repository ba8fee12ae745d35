// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

const outerContextDoc = `find work under a lock that does not stop when the lock is lost

The function of Do, DoRead, Once.Do and Election.Run gets a context that ends with the lease. A context from
outside does not, and a nested lock of the same name waits for itself under it.

	locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		return save(ctx) // use held
	})

What is meant to outlive the lease is left alone: context.Background, WithoutCancel, Lease.WithContext, deferred calls,
calls that close or release, goroutines that nobody waits for, values and logs. So is what runs after the loss, such
as the branch of "if held.Err() != nil".`

func newOuterContext(indexer *analysis.Analyzer) *analysis.Analyzer {
	return newCheck("outerctx", outerContextDoc, indexer, func(pass *analysis.Pass, x *index) {
		o := &outers{pass: pass, index: x, all: x.scopes()}
		for _, s := range o.all {
			o.check(s)
		}
	})
}

// outers is one run of the check.
type outers struct {
	*index
	pass *analysis.Pass
	all  []*scope
}

// A finding is one context from outside that is used in a scope.
type finding struct {
	expr    ast.Expr
	related relation
}

func (o *outers) check(s *scope) {
	var found []finding
	ignores := o.ignoresLoss(s)
	for c := range s.at.Preorder((*ast.Ident)(nil), (*ast.CallExpr)(nil), (*ast.SelectorExpr)(nil)) {
		e := c.Node().(ast.Expr)
		if !within(s.lit.Body, e.Pos()) || innermost(o.all, e) != s || !o.isOuter(s, c, e) {
			continue
		}
		related := o.relate(e, s.outer, o.all)
		if related == stranger && !ignores || !o.isWork(s, c, ignores) {
			continue
		}
		found = append(found, finding{e, related})
	}
	for i, f := range found {
		o.complain(s, f, found, i == 0)
	}
}

// isOuter reports whether an expression is a context from outside of the scope: a variable, the Context method
// of one (a request, a stream), or whatever the call was given.
func (o *outers) isOuter(s *scope, c inspector.Cursor, e ast.Expr) bool {
	if t := o.info.TypeOf(e); t == nil || !isContext(t) {
		return false
	}
	switch e := e.(type) {
	case *ast.Ident:
		v, ok := o.info.Uses[e].(*types.Var)
		if !ok || v.IsField() || v.Pkg() == nil || v.Parent() == v.Pkg().Scope() || within(s.lit, v.Pos()) {
			return false
		}
		return !o.setInside(s, v) && !o.onlyDetached(v)
	case *ast.CallExpr:
		sel, ok := ast.Unparen(e.Fun).(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Context" || len(e.Args) > 0 || o.api.isLease(o.info.TypeOf(sel.X)) {
			return false
		}
		v := o.variable(sel.X)
		return v != nil && !within(s.lit, v.Pos())
	case *ast.SelectorExpr: // s.ctx is an outer context only if the call was given it
		return s.outer != nil && o.key(e) == o.key(ast.Unparen(s.outer))
	}
	return false
}

// setInside reports whether the scope gives the variable another value.
func (o *outers) setInside(s *scope, v *types.Var) bool {
	for _, c := range o.uses[v] {
		a, ok := c.Parent().Node().(*ast.AssignStmt)
		if ok && within(s.lit, c.Node().Pos()) && slices.Contains(a.Lhs, c.Node().(ast.Expr)) {
			return true
		}
	}
	return false
}

// onlyDetached reports whether a variable has only contexts that are meant to end for themselves, as one for the
// shutdown has. A plain context.Background that was given to the call is an ordinary outer context.
func (o *outers) onlyDetached(v *types.Var) bool {
	from := o.assigns[v]
	return len(from) > 0 && !slices.ContainsFunc(from, func(e ast.Expr) bool { return !o.withoutCancel(e, map[*types.Var]bool{}) })
}

// withoutCancel looks at each variable once, as derived does.
func (o *outers) withoutCancel(e ast.Expr, seen map[*types.Var]bool) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	fn := callee(o.info, call)
	if calleePath(fn) != "context" {
		return false
	}
	if fn.Name() == "WithoutCancel" {
		return true
	}
	if len(call.Args) == 0 || !strings.HasPrefix(fn.Name(), "With") {
		return false
	}
	parent := ast.Unparen(call.Args[0])
	v := o.variable(parent)
	if v == nil {
		return o.detached(parent) || o.withoutCancel(parent, seen)
	}
	if seen[v] {
		return false
	}
	seen[v] = true
	return slices.ContainsFunc(o.assigns[v], func(e ast.Expr) bool { return o.withoutCancel(e, seen) })
}

// cleanup are names of functions that end something; they are given contexts that outlive the lock.
var cleanup = regexp.MustCompile(`(?i)^(close|shutdown|rollback|unlock|release|stop|cancel|abort|clean|resign|teardown|drain|log|inject)`)

// isWork reports whether the context is given to work that should end with the lease.
func (o *outers) isWork(s *scope, c inspector.Cursor, ignores bool) bool {
	if o.apart(s, c) || o.afterLoss(s, c) {
		return false
	}
	p := c.Parent()
	switch n := p.Node().(type) {
	case *ast.AssignStmt: // c := ctx
		return n.Tok == token.DEFINE && slices.Contains(n.Rhs, c.Node().(ast.Expr))
	case *ast.SelectorExpr: // ctx.Done()
		return ignores && (n.Sel.Name == "Done" || n.Sel.Name == "Err")
	case *ast.CallExpr:
		if n.Fun == c.Node() {
			return false
		}
		return !o.harmless(n) && !o.waitsForItself(o.all, n)
	}
	return false
}

// harmless reports whether a call may have a context that outlives the lock.
func (o *outers) harmless(call *ast.CallExpr) bool {
	fn := callee(o.info, call)
	if fn == nil {
		id, ok := ast.Unparen(call.Fun).(*ast.Ident)
		return ok && cleanup.MatchString(id.Name)
	}
	if cleanup.MatchString(fn.Name()) || prints(fn) {
		return true
	}
	recv := fn.Signature().Recv()
	if recv != nil && o.api.isLease(recv.Type()) {
		return true // WithContext
	}
	switch p := calleePath(fn); {
	case p == "context":
		return slices.Contains([]string{"WithoutCancel", "AfterFunc", "Cause"}, fn.Name())
	case slices.Contains(o.api.Paths, p):
		return false
	}
	return len(call.Args) == 1 && asksForAValue(fn.Signature())
}

// asksForAValue reports whether a function returns something that a context has, such as a user: results, and
// neither an error nor a context among them.
func asksForAValue(sig *types.Signature) bool {
	for v := range sig.Results().Variables() {
		if isError(v.Type()) || isContext(v.Type()) {
			return false
		}
	}
	return sig.Results().Len() > 0
}

// apart reports whether an expression runs when the scope is over or beside it: in a defer, in a function that is
// called later, in a goroutine that the scope does not wait for.
func (o *outers) apart(s *scope, c inspector.Cursor) bool {
	for p := range c.Enclosing((*ast.DeferStmt)(nil), (*ast.GoStmt)(nil), (*ast.CallExpr)(nil), (*ast.FuncLit)(nil)) {
		switch n := p.Node().(type) {
		case *ast.FuncLit:
			if n == s.lit {
				return false
			}
		case *ast.DeferStmt:
			return true
		case *ast.GoStmt:
			return !waits(s.lit)
		case *ast.CallExpr:
			fn := callee(o.info, n)
			if fn != nil && n != c.Node() && len(n.Args) > 0 && (fn.Name() == "AfterFunc" || fn.Name() == "Cleanup") {
				return true
			}
		}
	}
	return false
}

// waits reports whether a function waits for goroutines.
func waits(lit *ast.FuncLit) bool {
	found := false
	ast.Inspect(lit.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			found = found || n.Sel.Name == "Wait"
		case *ast.UnaryExpr:
			found = found || n.Op.String() == "<-"
		}
		return !found
	})
	return found
}

func (o *outers) complain(s *scope, f finding, all []finding, first bool) {
	text, inner := o.text(f.expr), "the context of the function"
	if s.inner != nil {
		inner = s.inner.Name()
	}
	d := analysis.Diagnostic{
		Pos: f.expr.Pos(), End: f.expr.End(),
		Message: fmt.Sprintf("%s does not end when the lock is lost: use %s", text, inner),
	}
	switch f.related {
	case same:
		d.SuggestedFixes = o.fix(s, f, all, first)
	case ancestor: // that of the call may have a deadline for the waiting
		if s.lease != nil {
			d.Message += fmt.Sprintf(", or %s.WithContext(%s)", s.lease.Name(), text)
		}
	case relative:
		d.Message += fmt.Sprintf(", or a context made from %s", inner)
	}
	o.report(o.pass, d)
}

// fix replaces the context by that of the function. If that has no name, it gets the one of the outer context,
// provided that every use of the outer context in the function was found wanting.
func (o *outers) fix(s *scope, f finding, all []finding, first bool) []analysis.SuggestedFix {
	if s.inner != nil {
		return o.useInner(o.pass, s, f.expr, "use ")
	}
	v := o.variable(f.expr)
	if s.param == nil || v == nil || !first || o.info.Scopes[s.lit.Type].Lookup(v.Name()) != nil {
		return nil // the last: ctx := wrap(ctx) cannot have a parameter of that name beside it
	}
	for _, c := range o.uses[v] {
		if within(s.lit.Body, c.Node().Pos()) && !slices.ContainsFunc(all, func(g finding) bool { return g.expr == c.Node() }) {
			return nil
		}
	}
	return []analysis.SuggestedFix{{
		Message:   "name the context of the function " + v.Name(),
		TextEdits: []analysis.TextEdit{{Pos: s.param.Pos(), End: s.param.End(), NewText: []byte(v.Name())}},
	}}
}
