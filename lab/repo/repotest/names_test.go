// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// unreleased are the folders of everything that users do not get.
var unreleased = []string{"internal", "lab"}

// released are the folders of packages that users import or install, beside the root.
// A new one is a decision, not an accident.
var released = []string{"driver", "store", "fence", "adapters", "otelfencelock", "cmd", "vet", "examples"}

// misplaced are packages in a place that the rule of names does not allow, with the reason.
var misplaced = map[string]string{
	"store/sqlstore/pgadvisory": "not a store: a lock of the database that is held beside a lease, where a reader who looks for PostgreSQL looks",
}

// checkNames is the rule of names at the top of CONTRIBUTING.md: the last element of a
// public package's path says what the package is, and the folder agrees.
func checkNames(t tree) []complaint { return checkNamesBut(t, misplaced) }

// checkNamesBut is checkNames with exceptions: reasons by folder.
func checkNamesBut(t tree, misplaced map[string]string) []complaint {
	var cs []complaint
	stores := assertedStores(t)
	seen := map[string]bool{}
	for _, f := range t.goFiles() {
		dir := f.dir()
		if f.isTest() || seen[dir] {
			continue
		}
		seen[dir] = true
		if _, ok := misplaced[dir]; ok {
			continue
		}
		if what := misnamed(dir, f.ast.Name.Name, stores[dir]); what != "" {
			cs = append(cs, f.complain(f.ast.Package, "%s: %s (CONTRIBUTING.md, rule of names)", dir, what))
		}
	}
	for dir := range misplaced {
		if !seen[dir] {
			cs = append(cs, complaint{dir, 1, "the exception is no longer needed; remove it from misplaced"})
		}
	}
	return cs
}

// misnamed returns what is wrong with a package in dir, or "". isStore reports whether the
// package asserts that it implements driver.Store.
func misnamed(dir, pkg string, isStore bool) string {
	top, _, _ := strings.Cut(dir, "/")
	base, parent := path.Base(dir), path.Base(path.Dir(dir))
	switch {
	case slices.Contains(unreleased, top) || inDir(dir+"/x", "internal"):
		return ""
	case dir != "." && !slices.Contains(released, top):
		return "not a folder for users; move it to " + strings.Join(unreleased, "/, ") + "/, or add it to released"
	case pkg == "main" && top != "cmd" && parent != "cmd" && top != "examples":
		return "a program for users is in cmd/; move it to lab/"
	case strings.HasSuffix(base, "test"):
		if base != parent+"test" {
			return "a conformance kit <pkg>test is inside <pkg>"
		}
	case base != "store" && strings.HasSuffix(base, "store"):
		if top != "store" {
			return "<server>store is under store/"
		}
		if !isStore {
			return "<server>store implements driver.Store; add var _ driver.Store = (*Store)(nil), or rename it"
		}
	case base != "fence" && strings.HasSuffix(base, "fence"):
		if top != "fence" {
			return "<resource>fence is under fence/"
		}
	case top == "adapters" && !strings.HasSuffix(base, "lock"):
		return "what is under adapters/ is called <host>lock"
	case top == "store" && !isStore:
		return "what is under store/ implements driver.Store; add var _ driver.Store = (*Store)(nil), or move it"
	}
	return ""
}

// assertedStores returns the folders of packages with an assertion that a type implements
// driver.Store.
func assertedStores(t tree) map[string]bool {
	dirs := map[string]bool{}
	for _, f := range t.goFiles() {
		for _, d := range f.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || f.isTest() {
				continue
			}
			for _, s := range g.Specs {
				v, ok := s.(*ast.ValueSpec)
				if !ok || v.Names[0].Name != "_" {
					continue
				}
				if sel, ok := v.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Store" && isIdent(sel.X, "driver") {
					dirs[f.dir()] = true
				}
			}
		}
	}
	return dirs
}

// isIdent reports whether an expression is a name.
func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

func TestNames(t *testing.T) { checkRepo(t, checkNames) }

func TestNamesComplain(t *testing.T) {
	for _, tt := range []struct {
		dir, pkg string
		store    bool
		want     string
	}{
		{dir: ".", pkg: "fencelock"},
		{dir: "driver/drivertest", pkg: "drivertest"},
		{dir: "drivertest", pkg: "drivertest", want: "not a folder for users"},
		{dir: "driver/fencetest", pkg: "fencetest", want: "a conformance kit"},
		{dir: "store/redisstore", pkg: "redisstore", store: true},
		{dir: "store/redisstore/rueidisstore", pkg: "rueidisstore", store: true},
		{dir: "store/redisstore", pkg: "redisstore", want: "<server>store implements"},
		{dir: "store/quorum", pkg: "quorum", store: true},
		{dir: "store/quorum", pkg: "quorum", want: "what is under store/"},
		{dir: "fence/filestore", pkg: "filestore", store: true, want: "<server>store is under"},
		{dir: "fence/sqlfence", pkg: "sqlfence"},
		{dir: "store/sqlstore/sqlfence", pkg: "sqlfence", want: "<resource>fence is under"},
		{dir: "store/sqlstore/internal/sqlfence", pkg: "sqlfence"},
		{dir: "adapters/cronlock", pkg: "cronlock"},
		{dir: "adapters/internal/held", pkg: "held"},
		{dir: "adapters/cron", pkg: "cron", want: "what is under adapters/"},
		{dir: "zoo", pkg: "main", want: "not a folder for users"},
		{dir: "driver/gen", pkg: "main", want: "a program for users"},
		{dir: "cmd/fencelock", pkg: "main"},
		{dir: "internal/zktest", pkg: "zktest"},
		{dir: "lab/bench/anystore", pkg: "anystore"},
	} {
		if got := misnamed(tt.dir, tt.pkg, tt.store); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: got %q, want %q", tt.dir, got, tt.want)
		}
	}
	files := treeOf("store/cstore/cfence/a.go", "package cfence\n",
		"store/astore/a.go", "package astore\n\nvar _ driver.Store = (*Store)(nil)\n",
		"store/bstore/a.go", "package bstore\n",
		"store/bstore/a_test.go", "package bstore\n\nvar _ driver.Store = (*Store)(nil)\n")
	but := func(t tree) []complaint {
		return checkNamesBut(t, map[string]string{"store/cstore/cfence": "moves later", "moved": "has moved"})
	}
	wantComplaints(t, but, files, "store/bstore/a.go:1: store/bstore: <server>store implements",
		"moved:1: the exception is no longer needed")
}
