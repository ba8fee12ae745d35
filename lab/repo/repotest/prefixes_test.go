// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// prefixList is the file that knows the names of packages that errors begin with.
const prefixList = "driver/inner.go"

// checkPrefixes: driver.Inner takes the names of all our packages out of an error, and an
// error of a package does not wrap one that begins with its name.
func checkPrefixes(t tree) []complaint {
	var cs []complaint
	stores, vars, names := assertedStores(t), prefixedVars(t), map[string]bool{}
	for _, f := range t.goFiles() {
		dir := f.dir()
		top, _, _ := strings.Cut(dir, "/")
		if f.isTest() || inDir(f.path, "internal") {
			continue
		}
		if stores[dir] && top == "store" || top == "fence" && strings.HasSuffix(dir, "fence") || dir == "otelfencelock" {
			names[path.Base(dir)] = true
		}
		cs = append(cs, doublePrefixes(f, vars[dir])...)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if text := string(t[prefixList]); !strings.Contains(text, "|"+name+"|") && !strings.Contains(text, "|"+name+")") && !strings.Contains(text, "`"+name+"|") {
			cs = append(cs, complaint{prefixList, 1, "packageNames lacks " + name + ", so its name stays inside other errors"})
		}
	}
	return cs
}

// prefixedVars returns the errors that begin with the name of their package: by folder, the
// prefix by the name of the variable.
func prefixedVars(t tree) map[string]map[string]string {
	vars := map[string]map[string]string{}
	for _, f := range t.goFiles() {
		if f.isTest() {
			continue
		}
		dir := f.dir()
		if vars[dir] == nil {
			vars[dir] = map[string]string{}
		}
		for _, d := range f.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				for i, value := range v.Values {
					if _, prefix, _ := errorCall(value); prefix == f.ast.Name.Name && i < len(v.Names) {
						vars[dir][v.Names[i].Name] = prefix
					}
				}
			}
		}
	}
	return vars
}

// doublePrefixes complains about errors that wrap a variable with the same prefix.
func doublePrefixes(f goFile, vars map[string]string) []complaint {
	var cs []complaint
	if len(vars) == 0 {
		return nil
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		call, prefix, ok := errorCall(e)
		if !ok || prefix == "" {
			return true
		}
		for _, arg := range call.Args[1:] {
			if id, ok := arg.(*ast.Ident); ok && vars[id.Name] == prefix {
				cs = append(cs, f.complain(call.Pos(), "%s begins with %q too; use driver.Inner, or take the prefix out of it", id.Name, prefix+": "))
			}
		}
		return true
	})
	return cs
}

// errorCall returns a call of errors.New or fmt.Errorf and the name that its text begins with.
func errorCall(e ast.Expr) (call *ast.CallExpr, prefix string, ok bool) {
	call, ok = e.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return nil, "", false
	}
	fn, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || fn.Sel.Name != "New" && fn.Sel.Name != "Errorf" || !isIdent(fn.X, "errors") && !isIdent(fn.X, "fmt") {
		return nil, "", false
	}
	text, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return nil, "", false
	}
	value, _ := strconv.Unquote(text.Value)
	prefix, _, found := strings.Cut(value, ": ")
	if !found || strings.ContainsAny(prefix, " %") {
		prefix = ""
	}
	return call, prefix, true
}

func TestPrefixes(t *testing.T) { checkRepo(t, checkPrefixes) }

func TestPrefixesComplain(t *testing.T) {
	wantComplaints(t, checkPrefixes, treeOf(
		"driver/inner.go", "package driver\n\nvar names = `(?:fencelock|astore)`\n",
		"store/astore/a.go", "package astore\n\nvar _ driver.Store = (*Store)(nil)\n\nvar errA, errB = errors.New(\"astore: a\"), errors.New(\"b\")\n",
		"store/astore/b.go", "package astore\n\nfunc f() error { return fmt.Errorf(\"astore: %w\", errA) }\n\n"+
			"func g() error { return fmt.Errorf(\"astore: %w\", errB) }\n\nfunc h() error { return fmt.Errorf(\"%w: more\", errA) }\n",
		"fence/bfence/b.go", "package bfence\n",
	),
		"store/astore/b.go:3: errA begins with \"astore: \" too",
		"driver/inner.go:1: packageNames lacks bfence")
}
