// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/cfg"
)

// held is what is known on a path about the lease.
type held uint8

const (
	// maybe: the error of the acquisition has not been looked at.
	maybe held = iota
	// surely: there was no error.
	surely
	// never: there was one, so there is no lease. The path is of no interest.
	never
)

// A search looks for a path from an acquisition to the end of its function on which the lease is neither
// unlocked nor passed on.
type search struct {
	*index
	a    acquisition
	ends bool // somewhere in the function the lease is unlocked or passed on
	tags map[ast.Stmt]ast.Expr
	seen map[step]bool
}

// A step is a block that is entered with some knowledge.
type step struct {
	block *cfg.Block
	state state
}

// state is what a path knows. stale: the variable of the error has another value by now.
type state struct {
	held  held
	stale bool
}

func newSearch(x *index, fn ast.Node, a acquisition) *search {
	s := &search{index: x, a: a, tags: map[ast.Stmt]ast.Expr{}, seen: map[step]bool{}}
	for _, c := range x.uses[a.lease] {
		if u := x.useOf(c); u == ended || u == passed {
			s.ends = true
		}
	}
	ast.Inspect(fn, func(n ast.Node) bool {
		if sw, ok := n.(*ast.SwitchStmt); ok && sw.Tag != nil {
			for _, clause := range sw.Body.List {
				s.tags[clause] = sw.Tag
			}
		}
		return true
	})
	return s
}

// run returns where the lease is lost from sight, or nil.
func (s *search) run(g *cfg.CFG) ast.Node {
	st := state{}
	if s.a.err == nil {
		st.held = surely // nothing else will say so
	}
	for _, b := range g.Blocks {
		for i, n := range b.Nodes {
			if n == s.a.stmt {
				return s.walk(b, i+1, st)
			}
		}
	}
	return nil
}

// walk follows a path from a node of a block on.
func (s *search) walk(b *cfg.Block, from int, st state) ast.Node {
	for _, n := range b.Nodes[from:] {
		switch {
		case s.takes(n):
			return nil
		case n == s.a.stmt, s.sets(n, s.a.lease):
			if s.counts(st) {
				return n
			}
			return nil
		case s.sets(n, s.a.err):
			st.stale = true
		}
		if ret, ok := n.(*ast.ReturnStmt); ok {
			if s.counts(st) {
				return ret
			}
			return nil
		}
	}
	for i, next := range b.Succs {
		after := st
		if len(b.Succs) == 2 {
			after = s.branch(b, i == 0, st)
		}
		if after.held == never || s.seen[step{next, after}] {
			continue
		}
		s.seen[step{next, after}] = true
		if exit := s.walk(next, 0, after); exit != nil {
			return exit
		}
	}
	return nil
}

// final are names of functions that end the process, the goroutine or the test.
var final = regexp.MustCompile(`^(Fatal|Fatalf|Fatalln|Fatalw|Exit|Goexit|Panic|Panicf|Panicln|FailNow|Skip|Skipf|SkipNow)$`)

// mayReturn is for the control flow graph. Whether a function returns is told by its name, not by its body:
// see acquiring.
func (s *search) mayReturn(call *ast.CallExpr) bool {
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.SelectorExpr:
		return !final.MatchString(f.Sel.Name)
	case *ast.Ident:
		return f.Name != "panic" && !strings.HasPrefix(f.Name, "fatal") && f.Name != "die" && f.Name != "exit"
	}
	return true
}

// counts reports whether losing sight of the lease is worth a report: it is held for sure, or the
// function ends it nowhere. Otherwise a test that we do not understand may have shown that there is none.
func (s *search) counts(st state) bool { return st.held == surely || !s.ends }

// takes reports whether a node unlocks the lease or passes it on, at once, deferred or in a function literal.
func (s *search) takes(n ast.Node) bool {
	for _, c := range s.uses[s.a.lease] {
		if !within(n, c.Node().Pos()) {
			continue
		}
		if u := s.useOf(c); u == ended || u == passed {
			return true
		}
	}
	return false
}

// sets reports whether a node gives a variable another value.
func (s *search) sets(n ast.Node, v *types.Var) bool {
	a, ok := n.(*ast.AssignStmt)
	if !ok || v == nil {
		return false
	}
	for _, l := range a.Lhs {
		if s.variable(l) == v {
			return true
		}
	}
	return false
}

// branch returns what is known on one side of a condition.
func (s *search) branch(b *cfg.Block, side bool, st state) state {
	if len(b.Nodes) == 0 {
		return st
	}
	cond, ok := b.Nodes[len(b.Nodes)-1].(ast.Expr)
	if !ok {
		return st
	}
	var h held
	if tag := s.tags[b.Succs[1].Stmt]; tag != nil && b.Succs[1].Kind == cfg.KindSwitchNextCase {
		h = s.compared(tag, cond, side, st) // switch err { case nil: ... }
	} else {
		h = s.known(cond, side, st)
	}
	if h != maybe {
		st.held = h
	}
	return st
}

// known returns what a condition that is true, or false, says about the lease.
func (s *search) known(cond ast.Expr, side bool, st state) held {
	switch e := ast.Unparen(cond).(type) {
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			return s.known(e.X, !side, st)
		}
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LAND, token.LOR:
			x, y := s.known(e.X, side, st), s.known(e.Y, side, st)
			if (e.Op == token.LAND) == side { // both have this value
				return max(x, y)
			}
			if x == y {
				return x
			}
		case token.EQL:
			return s.compared(e.X, e.Y, side, st)
		case token.NEQ:
			return s.compared(e.X, e.Y, !side, st)
		}
	case *ast.CallExpr:
		fn := callee(s.info, e)
		if side && fn != nil && calleePath(fn) == "errors" && len(e.Args) > 0 && s.isErr(e.Args[0], st) {
			return never // errors.Is(err, …), errors.As(err, …)
		}
	}
	return maybe
}

func (s *search) isErr(e ast.Expr, st state) bool {
	return s.a.err != nil && !st.stale && s.variable(e) == s.a.err
}

// compared returns what "x == y", or its opposite, says.
func (s *search) compared(x, y ast.Expr, equal bool, st state) held {
	isNil := s.info.Types[y].IsNil()
	switch {
	case s.isErr(x, st) && isNil && equal, s.variable(x) == s.a.lease && isNil && !equal:
		return surely
	case s.isErr(x, st) && isNil, s.variable(x) == s.a.lease && isNil:
		return never
	case s.isErr(x, st) && equal:
		return never // it is some error
	}
	return maybe
}
