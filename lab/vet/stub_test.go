// SPDX-License-Identifier: Apache-2.0

package vet_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
)

// declarations returns the exported functions, methods, constants and variables of files, with the types of functions as
// text. Names of parameters and of package driver are left out.
func declarations(t *testing.T, pattern string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files match %s: %v", pattern, err)
	}
	found := map[string]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() {
					found[receiver(d)+d.Name.Name] = signature(d.Type)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok {
						for _, id := range v.Names {
							found[id.Name] = d.Tok.String()
						}
					}
				}
			}
		}
	}
	return found
}

func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	return types.ExprString(d.Recv.List[0].Type) + "."
}

func signature(f *ast.FuncType) string {
	list := func(fields *ast.FieldList) string {
		var types []string
		for _, f := range fieldsOf(fields) {
			for range max(len(f.Names), 1) {
				types = append(types, text(f.Type))
			}
		}
		return "(" + strings.Join(types, ", ") + ")"
	}
	return list(f.Params) + " " + list(f.Results)
}

func fieldsOf(l *ast.FieldList) []*ast.Field {
	if l == nil {
		return nil
	}
	return l.List
}

func text(e ast.Expr) string {
	if f, ok := e.(*ast.FuncType); ok {
		return "func" + signature(f)
	}
	return strings.ReplaceAll(types.ExprString(e), "driver.", "")
}

// TestStubIsTheAPI: the stub that the tests of the analyzers compile against has the declarations of fencelock itself,
// and has every function that returns a lease and an error: one that is new must be known to leaseleak.
func TestStubIsTheAPI(t *testing.T) {
	stub := declarations(t, "../../vet/testdata/src/github.com/fencelock/fencelock/*.go")
	real := declarations(t, "../../*.go")
	for name, typ := range stub {
		if real[name] != typ {
			t.Errorf("the stub has %s %s, fencelock has %q", name, typ, real[name])
		}
	}
	for name, typ := range real {
		if strings.HasSuffix(typ, "(*Lease, error)") || strings.HasSuffix(typ, "(*LeaseSet, error)") {
			if stub[name] == "" {
				t.Errorf("%s returns a lease, and the stub does not have it: add it there and to the table in vet/internal/checks", name)
			}
		}
	}
}
