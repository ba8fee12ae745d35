// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

// A use is what a program does with a lease at one place.
type use uint8

const (
	// neutral says nothing about the lease: it is compared with nil, or printed.
	neutral use = iota
	// ended: the lease is unlocked.
	ended
	// observed: its context, its token or its state is asked for.
	observed
	// passed: it goes to another function, variable or goroutine, which may unlock it.
	passed
)

// quiet are the methods that tell nothing about the state of a lease.
var quiet = map[string]bool{"Name": true, "Owner": true, "LogValue": true}

// useOf returns what is done with the lease at an expression.
func (x *index) useOf(c inspector.Cursor) use {
	e := c.Node().(ast.Expr)
	p := c.Parent()
	switch n := p.Node().(type) {
	case *ast.ParenExpr:
		return x.useOf(p)
	case *ast.SelectorExpr:
		return x.useOfMethod(p, n)
	case *ast.BinaryExpr:
		return neutral
	case *ast.AssignStmt:
		for i, l := range n.Lhs {
			if l == e {
				return neutral // it is set
			}
			if id, ok := l.(*ast.Ident); ok && id.Name == "_" && i < len(n.Rhs) && n.Rhs[i] == e {
				return neutral
			}
		}
	case *ast.CallExpr:
		fn := callee(x.info, n)
		if n.Fun != e && prints(fn) && !(n.Args[0] == e && strings.HasPrefix(fn.Name(), "Fprint")) {
			return neutral
		}
	case *ast.ExprStmt:
		return neutral
	}
	return passed
}

func (x *index) useOfMethod(c inspector.Cursor, sel *ast.SelectorExpr) use {
	ends := x.api.ends(x.info.TypeOf(sel.X), sel.Sel.Name)
	call, called := c.Parent().Node().(*ast.CallExpr)
	switch {
	case ends && called && call.Fun == sel:
		return ended
	case ends:
		return passed // the method as a value: somebody else calls it
	case quiet[sel.Sel.Name]:
		return neutral
	case !sel.Sel.IsExported():
		return passed // to its own package, which may keep it
	}
	if called && call.Fun == sel {
		if sig := signature(x.info, call); sig != nil {
			for v := range sig.Results().Variables() {
				if x.api.isLease(v.Type()) || isLeases(x.api, v.Type()) {
					return passed
				}
			}
		}
	}
	return observed
}

// isLeases reports whether a type holds several leases.
func isLeases(api *API, t types.Type) bool {
	switch t := types.Unalias(t).Underlying().(type) {
	case *types.Slice:
		return api.isLease(t.Elem())
	case *types.Map:
		return api.isLease(t.Elem())
	case *types.Chan:
		return api.isLease(t.Elem())
	}
	return false
}

// acquires reports whether a call returns a lease that its caller has to end: it is a function of the
// table, one that returns what such a function returned, or a value that returns a lease and an error.
func (x *index) acquires(call *ast.CallExpr, wrapper func(*types.Func) bool) bool {
	sig := signature(x.info, call)
	if sig == nil || sig.Results().Len() == 0 || !x.api.isLease(sig.Results().At(0).Type()) {
		return false
	}
	fn := callee(x.info, call)
	if fn == nil {
		return sig.Results().Len() == 2 && isError(sig.Results().At(1).Type())
	}
	return calls(x.info, call, x.api.Acquire) || wrapper != nil && wrapper(fn)
}

// An acquisition is a statement that gets a lease.
type acquisition struct {
	at    inspector.Cursor // the call
	stmt  ast.Node         // what contains it: *ast.AssignStmt, *ast.ValueSpec, or another statement
	call  *ast.CallExpr
	lease *types.Var // nil if the lease is dropped or stored elsewhere
	err   *types.Var // nil if the error is dropped
	drop  bool
}

// acquisitions returns those of the package, with the function each is in.
func (x *index) acquisitions(wrapper func(*types.Func) bool) []acquisition {
	var list []acquisition
	for c := range x.root.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		if !x.acquires(call, wrapper) {
			continue
		}
		a := acquisition{at: c, call: call, stmt: c.Parent().Node()}
		switch n := a.stmt.(type) {
		case *ast.AssignStmt:
			a.lease, a.err, a.drop = x.results(n.Lhs)
		case *ast.ValueSpec:
			names := make([]ast.Expr, len(n.Names))
			for i, id := range n.Names {
				names[i] = id
			}
			a.lease, a.err, a.drop = x.results(names)
		case *ast.ExprStmt, *ast.GoStmt, *ast.DeferStmt:
			a.drop = true
		default:
			continue // returned or passed on
		}
		list = append(list, a)
	}
	return list
}

// results returns the variables that take a lease and an error. drop is set if nothing takes the lease.
func (x *index) results(lhs []ast.Expr) (lease, err *types.Var, drop bool) {
	id, ok := lhs[0].(*ast.Ident)
	drop = ok && id.Name == "_"
	lease = x.variable(lhs[0])
	if len(lhs) > 1 {
		err = x.variable(lhs[len(lhs)-1])
	}
	return lease, err, drop
}

// blind reports whether nothing asks for the context, the token or the state of a lease, and the lease
// goes nowhere else: nobody notices that it is lost.
func (x *index) blind(lease *types.Var) bool {
	for _, c := range x.uses[lease] {
		if u := x.useOf(c); u == observed || u == passed {
			return false
		}
	}
	return true
}
