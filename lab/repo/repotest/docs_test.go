// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// checkPackageComments: every package says what it is for, outside its tests.
func checkPackageComments(t tree) []complaint {
	first := map[string]goFile{}
	documented := map[string]bool{}
	var dirs []string
	for _, f := range t.goFiles() {
		if _, seen := first[f.dir()]; !seen {
			first[f.dir()] = f
			dirs = append(dirs, f.dir())
		}
		if !f.isTest() && f.ast.Doc != nil {
			documented[f.dir()] = true
		}
	}
	var cs []complaint
	for _, dir := range dirs {
		if f := first[dir]; !documented[dir] {
			cs = append(cs, f.complain(f.ast.Package,
				"the package in %s has no package comment; write one in %s/doc.go", dir, dir))
		}
	}
	return cs
}

// checkExportedDocs: every exported name that a user can reach is documented.
func checkExportedDocs(t tree) []complaint {
	var cs []complaint
	for _, f := range t.goFiles() {
		if f.isTest() || inDir(f.path, "internal") || f.ast.Name.Name == "main" {
			continue
		}
		for _, d := range f.ast.Decls {
			for _, name := range undocumented(d) {
				cs = append(cs, f.complain(name.Pos(),
					"%s has no comment; say what it does and what is guaranteed", name.Name))
			}
		}
	}
	return cs
}

// undocumented returns the exported names of a declaration without a comment.
func undocumented(d ast.Decl) []*ast.Ident {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && receiverExported(d.Recv) {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		if d.Tok == token.IMPORT || d.Doc != nil {
			return nil
		}
		var names []*ast.Ident
		for _, s := range d.Specs {
			names = append(names, undocumentedSpec(s)...)
		}
		return names
	}
	return nil
}

func undocumentedSpec(s ast.Spec) []*ast.Ident {
	var names []*ast.Ident
	switch s := s.(type) {
	case *ast.TypeSpec:
		if s.Doc == nil && s.Comment == nil {
			names = []*ast.Ident{s.Name}
		}
	case *ast.ValueSpec:
		if s.Doc == nil && s.Comment == nil {
			names = s.Names
		}
	}
	return slices.DeleteFunc(slices.Clone(names), func(id *ast.Ident) bool { return !id.IsExported() })
}

// receiverExported reports whether a function has no receiver or one of an
// exported type.
func receiverExported(recv *ast.FieldList) bool {
	if recv == nil || len(recv.List) == 0 {
		return true
	}
	typ := recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

func TestPackageComments(t *testing.T) { checkRepo(t, checkPackageComments) }
func TestExportedDocs(t *testing.T)    { checkRepo(t, checkExportedDocs) }

func TestPackageCommentsComplain(t *testing.T) {
	wantComplaints(t, checkPackageComments, treeOf(
		"a/a.go", "package a\n",
		"a/b.go", "// Package a is documented in its second file.\npackage a\n",
		"b/b.go", "\npackage b\n",
		"b/b_test.go", "// Package b: a comment in a test does not count.\npackage b\n",
	), "b/b.go:2: the package in b has no package comment")
}

func TestExportedDocsComplain(t *testing.T) {
	src := strings.Join([]string{
		"package a",
		"type T struct{}",
		"func (*T) M() {}",
		"func (T) m() {}",
		"type u[K any] struct{}",
		"func (u[K]) M() {}",
		"func F() {}",
		"const C = 1",
		"// Group comment.",
		"const ( D = 1; E = 2 )",
		"var V int // V has a comment beside it.",
		"type G[K any] struct{} // G too.",
		"func (g *G[K]) M() {}",
	}, "\n")
	wantComplaints(t, checkExportedDocs, treeOf("a/a.go", src, "a/internal/b/b.go", src, "a/a_test.go", src),
		"a/a.go:2: T has no comment",
		"a/a.go:3: M has no comment",
		"a/a.go:7: F has no comment",
		"a/a.go:8: C has no comment",
		"a/a.go:13: M has no comment",
	)
}
