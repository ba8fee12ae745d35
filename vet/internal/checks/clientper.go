// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

const clientPerRequestDoc = `find clients that are made again and again

One client keeps all locks of a process alive with one heartbeat. A client for each request, or for each round of a
loop, opens a session and starts a heartbeat each time, and its locks do not re-enter those of another.

	func handle(w http.ResponseWriter, r *http.Request) {
		locks, err := fencelock.New(store, nil) // make it once, in main
	}

A client that is kept in a field, a map or a variable of the package is left alone, and so is a loop over stores.`

func newClientPerRequest(indexer *analysis.Analyzer) *analysis.Analyzer {
	return newCheck("clientperrequest", clientPerRequestDoc, indexer, func(pass *analysis.Pass, x *index) {
		m := &makers{pass: pass, index: x}
		for c := range x.root.Preorder((*ast.CallExpr)(nil)) {
			if m.makes(c.Node().(*ast.CallExpr), 0) {
				m.check(c)
			}
		}
	})
}

// makers is one run of the check.
type makers struct {
	*index
	pass *analysis.Pass
}

// makes reports whether a call makes a client: the constructor, or a function of this package that returns what it
// made with the constructor, and keeps it nowhere.
func (m *makers) makes(call *ast.CallExpr, depth int) bool {
	if calls(m.info, call, m.api.Clients) {
		return true
	}
	decl := m.decls[callee(m.info, call)]
	if decl == nil || decl.Body == nil || depth > 1 || decl.Type.Results == nil {
		return false
	}
	found := false
	ast.Inspect(decl.Body, func(n ast.Node) bool {
		ret, ok := n.(*ast.ReturnStmt)
		if !ok || len(ret.Results) == 0 {
			_, lit := n.(*ast.FuncLit)
			return !lit
		}
		e := ast.Unparen(ret.Results[0])
		if t := m.info.TypeOf(e); t == nil || isError(t) {
			return true
		}
		if v := m.variable(e); v != nil && len(m.assigns[v]) == 1 && !m.kept(v) {
			e = ast.Unparen(m.assigns[v][0])
		}
		if made, ok := e.(*ast.CallExpr); ok && m.makes(made, depth+1) {
			found = true
		}
		return true
	})
	return found
}

func (m *makers) check(c inspector.Cursor) {
	call := c.Node().(*ast.CallExpr)
	if m.keptAt(c) {
		return
	}
	for p := range c.Enclosing((*ast.FuncLit)(nil), (*ast.FuncDecl)(nil), (*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.CallExpr)(nil)) {
		switch n := p.Node().(type) {
		case *ast.CallExpr:
			if fn := callee(m.info, n); calleePath(fn) == "sync" {
				return // sync.Once and its like make one
			}
		case *ast.ForStmt, *ast.RangeStmt:
			if m.sameEachRound(call.Args, n) && !leaves(m.index, loopBody(n)) {
				m.complain(call, "in each round of the loop")
				return
			}
		default:
			typ, _ := funcParts(n)
			if m.handles(typ) {
				m.complain(call, "for each request")
				return
			}
		}
	}
}

func (m *makers) complain(call *ast.CallExpr, when string) {
	m.report(m.pass, analysis.Diagnostic{Pos: call.Pos(), End: call.End(), Message: m.text(call.Fun) + " makes a client " + when +
		", each with its own session and heartbeat: make one per process and share it"})
}

// handles reports whether a function answers a request: of net/http, or in the shape of gRPC.
func (m *makers) handles(typ *ast.FuncType) bool {
	var params []types.Type
	for _, f := range typ.Params.List {
		for range max(len(f.Names), 1) {
			params = append(params, m.info.TypeOf(f.Type))
		}
	}
	for _, t := range params {
		if isStream(t) {
			return true
		}
		switch named(t) {
		case "net/http.ResponseWriter", "github.com/gin-gonic/gin.Context", "github.com/labstack/echo/v4.Context", "github.com/gofiber/fiber/v2.Ctx":
			return true
		}
	}
	if len(params) != 2 || !isContext(params[0]) || !lastIsError(m.index, typ) {
		return false
	}
	if typ.Results.NumFields() != 2 {
		return isMessage(params[1], "Message", "Msg", "Delivery", "Task") // of a broker
	}
	return isMessage(params[1], "Request", "Req", "Input") && isMessage(m.info.TypeOf(typ.Results.List[0].Type), "Response", "Reply", "Resp", "Output", "Empty")
}

// isStream reports whether a type is the stream of a call of gRPC.
func isStream(t types.Type) bool {
	for _, method := range []string{"Context", "SendMsg", "RecvMsg"} {
		if obj, _, _ := types.LookupFieldOrMethod(t, true, nil, method); obj == nil {
			return false
		}
	}
	return true
}

// isMessage reports whether a type is a pointer to a message: it has the method of protobuf, or such a name.
func isMessage(t types.Type, suffixes ...string) bool {
	p, ok := types.Unalias(t).(*types.Pointer)
	if !ok {
		return false
	}
	if obj, _, _ := types.LookupFieldOrMethod(p, false, nil, "ProtoReflect"); obj != nil {
		return true
	}
	name := named(p)
	for _, s := range suffixes {
		if strings.HasSuffix(name, s) {
			return true
		}
	}
	return false
}

// sameEachRound reports whether expressions have the same value in each round of a loop: their variables come from
// outside of it and are not set inside, and they call nothing.
func (x *index) sameEachRound(exprs []ast.Expr, loop ast.Node) bool {
	inside := false
	for _, e := range exprs {
		inside = inside || x.written(e, loop.Pos(), loop.End())
		ast.Inspect(e, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				v := x.variable(id)
				inside = inside || v != nil && !v.IsField() && within(loop, v.Pos())
			}
			_, ok := n.(*ast.CallExpr)
			inside = inside || ok // a store that is made here, too
			return !inside
		})
	}
	return !inside
}

func loopBody(loop ast.Node) *ast.BlockStmt {
	if n, ok := loop.(*ast.RangeStmt); ok {
		return n.Body
	}
	return loop.(*ast.ForStmt).Body
}

// leaves reports whether the rounds of a loop end with the loop: at its end, or where there is no error.
func leaves(x *index, body *ast.BlockStmt) bool {
	out := func(s ast.Stmt) bool {
		switch s := s.(type) {
		case *ast.ReturnStmt:
			return true
		case *ast.BranchStmt:
			return s.Tok.String() == "break"
		}
		return false
	}
	for i, s := range body.List {
		if i == len(body.List)-1 && out(s) {
			return true
		}
		check, ok := s.(*ast.IfStmt)
		if !ok || len(check.Body.List) == 0 || !out(check.Body.List[len(check.Body.List)-1]) {
			continue
		}
		if b, ok := check.Cond.(*ast.BinaryExpr); ok && b.Op.String() == "==" && x.info.Types[b.Y].IsNil() {
			return true
		}
	}
	return false
}

// keptAt reports whether the client of a call outlives its function.
func (m *makers) keptAt(c inspector.Cursor) bool {
	switch n := c.Parent().Node().(type) {
	case *ast.AssignStmt:
		v := m.variable(n.Lhs[0])
		return v == nil || m.kept(v)
	case *ast.ValueSpec:
		v := m.variable(n.Names[0])
		return v != nil && m.kept(v)
	case *ast.KeyValueExpr, *ast.ReturnStmt, *ast.CompositeLit:
		return true
	}
	return false
}

// kept reports whether a variable with a client is one of the package, or is put into something that stays. One that is closed
// is not kept.
func (m *makers) kept(v *types.Var) bool {
	if v.Pkg() != nil && v.Parent() == v.Pkg().Scope() || v.IsField() {
		return true
	}
	kept := false
	for _, c := range m.uses[v] {
		switch n := c.Parent().Node().(type) {
		case *ast.SelectorExpr:
			call, ok := c.Parent().Parent().Node().(*ast.CallExpr)
			if ok && calls(m.info, call, m.api.Close) {
				return false
			}
		case *ast.AssignStmt:
			for i, r := range n.Rhs {
				if r == c.Node() && i < len(n.Lhs) && m.variable(n.Lhs[i]) == nil {
					kept = true
				}
			}
		case *ast.KeyValueExpr, *ast.CompositeLit, *ast.SendStmt:
			kept = true
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "append" {
				kept = true
			}
			if fn := callee(m.info, n); calleePath(fn) == "sync" || calleePath(fn) == "sync/atomic" {
				kept = true // atomic.Pointer, sync.Map
			}
		}
	}
	return kept
}
