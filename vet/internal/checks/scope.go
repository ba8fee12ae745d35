// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

// A scope is a function literal that runs under a lock, as that of Do does: its first parameter is a context and
// its second a lease. A wrapper of Do is found by the type of the literal, without being named anywhere.
type scope struct {
	at    inspector.Cursor // the literal
	lit   *ast.FuncLit
	call  *ast.CallExpr
	param *ast.Ident // the name of the context, nil if it has none
	inner *types.Var // nil if the context has no name or is _
	lease *types.Var
	outer ast.Expr // the context that the call was given, nil if there is none
}

// scopes returns the scopes of the package, outer ones first.
func (x *index) scopes() []*scope {
	var list []*scope
	for c := range x.root.Preorder((*ast.FuncLit)(nil)) {
		lit := c.Node().(*ast.FuncLit)
		sig, ok := x.info.TypeOf(lit).(*types.Signature)
		if !ok || sig.Params().Len() == 0 || !isContext(sig.Params().At(0).Type()) {
			continue
		}
		hasLease := sig.Params().Len() > 1 && x.api.isLease(sig.Params().At(1).Type())
		call := x.takenBy(c)
		if call == nil {
			call = x.takenByVariable(c)
		}
		if call == nil || !hasLease && !x.api.AnyScope {
			continue
		}
		s := &scope{at: c, lit: lit, call: call}
		s.param, s.inner = x.param(lit, 0)
		if hasLease {
			_, s.lease = x.param(lit, 1)
		}
		for _, arg := range call.Args {
			if t := x.info.TypeOf(arg); t != nil && isContext(t) {
				s.outer = arg
				break
			}
		}
		list = append(list, s)
	}
	return list
}

// innermost returns the innermost scope whose body has a node, or nil.
func innermost(all []*scope, n ast.Node) *scope {
	var in *scope
	for _, s := range all { // outer ones come first
		if within(s.lit.Body, n.Pos()) {
			in = s
		}
	}
	return in
}

// takenBy returns the call that takes a literal as an argument, also inside a composite literal or a conversion.
func (x *index) takenBy(c inspector.Cursor) *ast.CallExpr {
	for p := c.Parent(); ; c, p = p, p.Parent() {
		switch n := p.Node().(type) {
		case *ast.CallExpr:
			if n.Fun == c.Node() {
				return nil // called at once
			}
			if tv, ok := x.info.Types[n.Fun]; ok && tv.IsType() {
				continue
			}
			return n
		case *ast.CompositeLit, *ast.KeyValueExpr, *ast.UnaryExpr, *ast.ParenExpr:
		default:
			return nil
		}
	}
}

// takenByVariable returns the call that takes the variable of a literal, if the variable has no other value.
func (x *index) takenByVariable(c inspector.Cursor) *ast.CallExpr {
	var v *types.Var
	switch n := c.Parent().Node().(type) {
	case *ast.AssignStmt:
		if len(n.Lhs) == 1 {
			v = x.variable(n.Lhs[0])
		}
	case *ast.ValueSpec:
		if len(n.Names) == 1 {
			v = x.variable(n.Names[0])
		}
	}
	if v == nil || len(x.assigns[v]) != 1 {
		return nil
	}
	for _, u := range x.uses[v] {
		if call, ok := u.Parent().Node().(*ast.CallExpr); ok && call.Fun != u.Node() {
			return call
		}
	}
	return nil
}

// param returns the i-th parameter of a literal.
func (x *index) param(lit *ast.FuncLit, i int) (*ast.Ident, *types.Var) {
	for _, f := range lit.Type.Params.List {
		for _, id := range f.Names {
			if i == 0 {
				v, _ := x.info.Defs[id].(*types.Var)
				if id.Name == "_" {
					v = nil
				}
				return id, v
			}
			i--
		}
		if len(f.Names) == 0 {
			i--
		}
	}
	return nil, nil
}

// ignoresLoss reports whether nothing in a scope would notice that the lease is lost: neither the context nor
// the lease is used for that.
func (x *index) ignoresLoss(s *scope) bool {
	if s.inner != nil && len(x.uses[s.inner]) > 0 {
		return false
	}
	return s.lease == nil || x.blind(s.lease)
}

// keys returns names for a context and for those it was made from, nearest first: variables by their place,
// other expressions by their text. A context that context.WithoutCancel, Background or TODO made has none.
func (x *index) keys(e ast.Expr, scopes []*scope) []string {
	seen := map[string]bool{}
	var list []string
	var add func(e ast.Expr)
	add = func(e ast.Expr) {
		e = ast.Unparen(e)
		if x.detached(e) {
			return
		}
		k := x.key(e)
		if k == "" || seen[k] {
			return
		}
		seen[k] = true
		list = append(list, k)
		if call, ok := e.(*ast.CallExpr); ok {
			for _, arg := range call.Args {
				if t := x.info.TypeOf(arg); t != nil && isContext(t) {
					add(arg)
				}
			}
		}
		if v := x.variable(e); v != nil {
			for _, from := range x.assigns[v] {
				add(from)
			}
			for _, s := range scopes {
				if s.inner == v && s.outer != nil {
					add(s.outer)
				}
			}
		}
	}
	add(e)
	return list
}

// key returns the text of an expression, with the place of the declaration behind each variable.
func (x *index) key(e ast.Expr) string {
	var b strings.Builder
	ok := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			b.WriteString(n.Name)
			if obj := x.info.ObjectOf(n); obj != nil {
				fmt.Fprintf(&b, "@%d", obj.Pos())
			}
		case *ast.BasicLit:
			b.WriteString(n.Value)
		case *ast.FuncLit:
			ok = false
		case nil:
			b.WriteByte(')')
		default:
			fmt.Fprintf(&b, "%T(", n)
		}
		if bin, isBin := n.(*ast.BinaryExpr); isBin {
			b.WriteString(bin.Op.String())
		}
		return ok
	})
	if !ok {
		return ""
	}
	return b.String()
}

// detached reports whether an expression makes a context that is meant to end for itself.
func (x *index) detached(e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	fn := callee(x.info, call)
	if calleePath(fn) != "context" {
		return false
	}
	return slices.Contains([]string{"WithoutCancel", "Background", "TODO"}, fn.Name())
}

// relation is how two contexts are related.
type relation uint8

const (
	// stranger: neither is made from the other, as far as one sees.
	stranger relation = iota
	// same: it is the context that the call was given.
	same
	// ancestor: the context of the call was made from it, and may end earlier.
	ancestor
	// relative: made from the context of the call, or from a common one.
	relative
)

// relate compares a context that is used in a scope with that of its call.
func (x *index) relate(used, outer ast.Expr, scopes []*scope) relation {
	if outer == nil {
		return stranger
	}
	mine, theirs := x.keys(used, scopes), x.keys(outer, scopes)
	if len(mine) == 0 {
		return stranger
	}
	if i := slices.Index(theirs, mine[0]); i == 0 {
		return same
	} else if i > 0 {
		return ancestor
	}
	if slices.ContainsFunc(mine, func(k string) bool { return slices.Contains(theirs, k) }) {
		return relative
	}
	return stranger
}
