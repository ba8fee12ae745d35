// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ast/inspector"
)

// afterLoss reports whether an expression runs only when the scope already knows that its lock is lost, or that its
// context ended: what it does then cannot work with that context.
//
//	err := work(held)
//	if held.Err() != nil {
//		return report(ctx, context.Cause(held))
//	}
func (o *outers) afterLoss(s *scope, c inspector.Cursor) bool {
	for p := c; p.Node() != s.lit; p = p.Parent() {
		if o.waitedBefore(s, p) {
			return true
		}
		at := p.Parent()
		switch n := at.Node().(type) {
		case *ast.IfStmt:
			if n.Body == p.Node() && o.saysLost(s, n.Cond) {
				return true
			}
		case *ast.CaseClause:
			for _, e := range n.List {
				if e != p.Node() && o.saysLost(s, e) {
					return true
				}
			}
		case *ast.CommClause:
			if n.Comm != p.Node() && o.waitsForEnd(s, n.Comm) {
				return true
			}
		}
	}
	return false
}

// waitedBefore reports whether a statement before this one, in the same block, waits for the end of the context.
func (o *outers) waitedBefore(s *scope, c inspector.Cursor) bool {
	if _, ok := c.Node().(ast.Stmt); !ok {
		return false
	}
	for prev, ok := c.PrevSibling(); ok; prev, ok = prev.PrevSibling() {
		if stmt, isStmt := prev.Node().(ast.Stmt); isStmt && o.waitsForEnd(s, stmt) {
			return true
		}
	}
	return false
}

// waitsForEnd reports whether a statement is "<-held.Done()", or that of the lease's context.
func (o *outers) waitsForEnd(s *scope, stmt ast.Stmt) bool {
	n, ok := stmt.(*ast.ExprStmt)
	if !ok {
		return false
	}
	recv, ok := ast.Unparen(n.X).(*ast.UnaryExpr)
	return ok && recv.Op == token.ARROW && mentions(recv.X, "Done") && o.asks(s, recv.X)
}

// asks reports whether an expression mentions the context of the scope or its lease.
func (o *outers) asks(s *scope, e ast.Expr) bool {
	for _, v := range []*types.Var{s.inner, s.lease} {
		if v != nil && mentionsVar(o.index, e, v) {
			return true
		}
	}
	return false
}

// saysLost reports whether a condition holds only after the loss, as far as one sees. "l.Valid()" and
// "held.Err() == nil" say the opposite.
func (o *outers) saysLost(s *scope, cond ast.Expr) bool {
	switch e := ast.Unparen(cond).(type) {
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LAND, token.LOR:
			return o.saysLost(s, e.X) || o.saysLost(s, e.Y)
		case token.NEQ:
			return o.info.Types[e.Y].IsNil() && o.asks(s, e.X)
		}
	case *ast.UnaryExpr:
		return e.Op == token.NOT && mentions(e.X, "Valid") && o.asks(s, e.X)
	case *ast.CallExpr: // errors.Is(context.Cause(held), …), errors.Is(err, fencelock.ErrLost)
		return calleePath(callee(o.info, e)) == "errors" && (o.asks(s, e) || mentions(e, "ErrLost"))
	}
	return false
}
