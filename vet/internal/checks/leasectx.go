// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

const leaseContextDoc = `find leases that go away without their context

A lease that is kept in a struct, sent on a channel or given to a goroutine lives on while other code works. If
that code asks neither for the context of the lease nor for its token or state, nobody notices that it is lost.

	go func() {
		defer l.Unlock(ctx)
		work(ctx) // use l.Context() or l.WithContext(ctx)
	}()

A field or channel that others can reach is left alone, and so is a package that listens to LeaseLost.`

func newLeaseContext(indexer *analysis.Analyzer) *analysis.Analyzer {
	return newCheck("leasectx", leaseContextDoc, indexer, func(pass *analysis.Pass, x *index) {
		k := &keeps{pass: pass, index: x, acquired: map[*types.Var]bool{}}
		for _, a := range x.acquisitions(nil) {
			k.acquired[a.lease] = a.lease != nil
		}
		k.goroutines()
		if !k.listens() {
			k.places()
		}
	})
}

// keeps is one run of the check.
type keeps struct {
	*index
	pass     *analysis.Pass
	acquired map[*types.Var]bool // variables that an acquisition sets
}

// listens reports whether the package hears of losses by a hook.
func (k *keeps) listens() bool {
	for id, obj := range k.info.Uses {
		if id.Name == "LeaseLost" && obj.Pkg() != nil && obj.Pkg().Path() == path {
			return true
		}
	}
	return false
}

// goroutines looks at what a goroutine does with a lease from outside.
func (k *keeps) goroutines() {
	for c := range k.root.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		if _, ok := c.Parent().Node().(*ast.GoStmt); ok {
			if lit, ok := ast.Unparen(call.Fun).(*ast.FuncLit); ok {
				k.literal(call, lit)
			}
			k.arguments(call)
			continue
		}
		if !goes(call) {
			continue
		}
		if lit, ok := ast.Unparen(call.Args[0]).(*ast.FuncLit); ok {
			k.literal(call, lit)
		}
	}
}

// literal reports a goroutine that ends a lease it does not look at.
func (k *keeps) literal(call *ast.CallExpr, lit *ast.FuncLit) {
	for v := range k.acquired {
		if v == nil || within(lit, v.Pos()) || !k.usedIn(lit, v) || !k.blind(v) || !k.works(lit) {
			continue
		}
		k.complain(call.Pos(), fmt.Sprintf("the goroutine works under the lease %s without its context", v.Name()), v.Name())
	}
}

func (k *keeps) usedIn(n ast.Node, v *types.Var) bool {
	for _, c := range k.uses[v] {
		if within(n, c.Node().Pos()) && k.useOf(c) == ended {
			return true
		}
	}
	return false
}

// works reports whether a function calls something apart from the unlock.
func (k *keeps) works(lit *ast.FuncLit) bool {
	found := false
	ast.Inspect(lit.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || found {
			return !found
		}
		sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
		if ok && k.api.isLease(k.info.TypeOf(sel.X)) || prints(callee(k.info, call)) {
			return true
		}
		switch fn := callee(k.info, call); {
		case calleePath(fn) == "context" || calleePath(fn) == "errors" || calleePath(fn) == "sync":
			return true
		case k.info.Types[call.Fun].IsType() || k.info.Types[call.Fun].IsBuiltin():
			return true
		}
		if _, lit := ast.Unparen(call.Fun).(*ast.FuncLit); !lit {
			found = true
		}
		return !found
	})
	return found
}

// arguments looks into a function of this package that a go statement gives a lease.
func (k *keeps) arguments(call *ast.CallExpr) {
	typ, body := (*ast.FuncType)(nil), (*ast.BlockStmt)(nil)
	if lit, ok := ast.Unparen(call.Fun).(*ast.FuncLit); ok {
		typ, body = lit.Type, lit.Body
	} else if decl := k.decls[callee(k.info, call)]; decl != nil {
		typ, body = decl.Type, decl.Body
	}
	if body == nil {
		return
	}
	var params []*types.Var
	for _, f := range typ.Params.List {
		for _, id := range f.Names {
			v, _ := k.info.Defs[id].(*types.Var)
			params = append(params, v)
		}
	}
	for i, arg := range call.Args {
		v := k.variable(arg)
		if i >= len(params) || v == nil || !k.acquired[v] || !k.api.isLease(v.Type()) || params[i] == nil {
			continue
		}
		if k.blind(params[i]) && k.onlyGiven(v, call) {
			k.complain(arg.Pos(), fmt.Sprintf("the goroutine gets the lease %s and works without its context", v.Name()), v.Name())
		}
	}
}

// onlyGiven reports whether the lease is observed nowhere else: only given to this call.
func (k *keeps) onlyGiven(v *types.Var, call *ast.CallExpr) bool {
	for _, c := range k.uses[v] {
		u := k.useOf(c)
		if u == observed || u == passed && !within(call, c.Node().Pos()) {
			return false
		}
	}
	return true
}

// places looks at fields and channels with leases: is a lease that was put there ever looked at?
func (k *keeps) places() {
	for v := range k.uses {
		if !k.private(v) || !k.api.isLease(v.Type()) && !isLeases(k.api, v.Type()) {
			continue
		}
		var stored token.Pos
		seen := false
		for _, c := range k.uses[v] {
			pos, ok := k.place(c)
			seen = seen || ok
			if pos.IsValid() && (!stored.IsValid() || pos < stored) {
				stored = pos
			}
		}
		if seen || !stored.IsValid() {
			continue
		}
		where := "the field " + v.Name()
		if !v.IsField() {
			where = "the channel " + v.Name()
		}
		k.complain(stored, fmt.Sprintf("the lease in %s is only unlocked: nothing here notices when it is lost", where), "the lease")
	}
}

// private reports whether only this package can reach a field or variable: a field without a capital letter, or a
// channel of a function. Other local variables are for the other checks.
func (k *keeps) private(v *types.Var) bool {
	if v.Pkg() != k.pass.Pkg || v.Embedded() {
		return false
	}
	if v.IsField() {
		return !v.Exported()
	}
	_, isChan := types.Unalias(v.Type()).Underlying().(*types.Chan)
	return isChan
}

// place looks at one mention of a field or channel. stored is where a lease is put into it that is not looked at
// on its way; seen is set if a lease in it is looked at, or goes somewhere else.
func (k *keeps) place(c inspector.Cursor) (stored token.Pos, seen bool) {
	e := c.Node().(ast.Expr)
	p := c.Parent()
	switch n := p.Node().(type) {
	case *ast.SelectorExpr:
		if n.Sel == e { // x.field
			return k.place(p)
		}
	case *ast.ParenExpr:
		return k.place(p)
	case *ast.IndexExpr:
		if n.X == e {
			return k.place(p)
		}
	case *ast.BinaryExpr:
		return token.NoPos, false // with nil
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return k.place(p)
		}
	case *ast.KeyValueExpr:
		if n.Key == e && returned(p) {
			return token.NoPos, true // a wrapper, whose owner is the caller
		}
		if n.Key == e {
			return k.put(n.Value)
		}
	case *ast.SendStmt:
		if n.Chan == e {
			return k.put(n.Value)
		}
	case *ast.RangeStmt:
		if n.X == e {
			return token.NoPos, k.looked(n.Key) || k.looked(n.Value)
		}
	case *ast.AssignStmt:
		return k.assigned(n, e)
	case *ast.CallExpr:
		if id, ok := n.Fun.(*ast.Ident); ok && k.info.Types[n.Fun].IsBuiltin() {
			return token.NoPos, id.Name != "delete" && id.Name != "len" && id.Name != "close" && id.Name != "append" && id.Name != "clear"
		}
	}
	if k.api.isLease(k.info.TypeOf(e)) {
		u := k.useOf(c)
		return token.NoPos, u == observed || u == passed
	}
	return token.NoPos, true
}

// returned reports whether a composite literal goes to the caller.
func returned(c inspector.Cursor) bool {
	for p := c.Parent(); ; p = p.Parent() {
		switch p.Node().(type) {
		case *ast.CompositeLit, *ast.UnaryExpr, *ast.ParenExpr, *ast.KeyValueExpr:
		case *ast.ReturnStmt:
			return true
		default:
			return false
		}
	}
}

// assigned is place for one side of an assignment.
func (k *keeps) assigned(n *ast.AssignStmt, e ast.Expr) (stored token.Pos, seen bool) {
	for i, l := range n.Lhs {
		r := n.Rhs[0]
		if len(n.Rhs) == len(n.Lhs) {
			r = n.Rhs[i]
		}
		switch {
		case l == e:
			return k.put(r)
		case r == e && i == 0:
			return token.NoPos, k.looked(l)
		}
	}
	return token.NoPos, false
}

// put returns where a lease is put that nothing has looked at. Other values are of no interest.
func (k *keeps) put(e ast.Expr) (stored token.Pos, seen bool) {
	e = ast.Unparen(e)
	if call, ok := e.(*ast.CallExpr); ok {
		if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "append" && len(call.Args) > 1 {
			return k.put(call.Args[1])
		}
		if k.acquires(call, nil) {
			return e.Pos(), false
		}
		return token.NoPos, k.api.isLease(k.info.TypeOf(e))
	}
	v := k.variable(e)
	switch {
	case v == nil:
		return token.NoPos, k.api.isLease(k.info.TypeOf(e)) && !k.info.Types[e].IsNil()
	case !k.acquired[v]:
		return token.NoPos, k.api.isLease(v.Type()) // from somewhere else, where it may be looked at
	}
	for _, c := range k.uses[v] {
		if k.useOf(c) == observed {
			return token.NoPos, true
		}
		if k.useOf(c) == passed && !k.sameStore(c, e) {
			return token.NoPos, true
		}
	}
	return e.Pos(), false
}

// sameStore reports whether a use of a variable is the one that stores it, or another value that is stored.
func (k *keeps) sameStore(c inspector.Cursor, e ast.Expr) bool {
	if c.Node() == e {
		return true
	}
	switch c.Parent().Node().(type) {
	case *ast.AssignStmt, *ast.KeyValueExpr, *ast.SendStmt:
		return true
	}
	return false
}

// looked reports whether a variable that took a lease out of a place is looked at or passed on.
func (k *keeps) looked(e ast.Expr) bool {
	if e == nil {
		return false
	}
	v := k.variable(e)
	if v == nil {
		id, ok := e.(*ast.Ident)
		return !ok || id.Name != "_"
	}
	return k.api.isLease(v.Type()) && !k.blind(v)
}

func (k *keeps) complain(pos token.Pos, what, lease string) {
	advice := "; work with " + lease + ".Context() or " + lease + ".WithContext(ctx)"
	if strings.Contains(lease, " ") {
		advice = "; work with its Context, or look at its Err"
	}
	k.report(k.pass, analysis.Diagnostic{Pos: pos, Message: what + advice})
}
