// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"
)

// otherwise are the stores that are made in another way, or inherit Check, with the reason.
var otherwise = map[string]string{
	"store/faultstore Wrap":              "it wraps a store, with a fault",
	"store/memstore New":                 "it has no client",
	"store/redisstore/redisquorum Check": "it is that of the embedded quorum.Store",
}

// checkConstructors: all stores are made and checked in the same way.
//
//	Open(ctx context.Context, url string, opts *Options) (*Store, error)
//	New(<client>, opts *Options) (*Store, error)
//	(*Store).Check(ctx context.Context) ([]driver.Finding, error)
//
// A store has Open or New, and Check.
func checkConstructors(t tree) []complaint { return checkConstructorsBut(t, otherwise) }

// checkConstructorsBut is checkConstructors with exceptions: reasons by folder and function.
func checkConstructorsBut(t tree, otherwise map[string]string) []complaint {
	var cs []complaint
	stores := assertedStores(t)
	has, first := map[string]bool{}, map[string]goFile{}
	for _, f := range t.goFiles() {
		dir := f.dir()
		if f.isTest() || !stores[dir] || !strings.HasPrefix(dir, "store/") || inDir(f.path, "internal") {
			continue
		}
		if _, ok := first[dir]; !ok {
			first[dir] = f
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name, want := constructor(fn)
			has[dir+" "+name] = true
			if _, ok := otherwise[dir+" "+name]; want != "" && !ok {
				cs = append(cs, f.complain(fn.Pos(), "%s is not %s, as in the other stores", name, want))
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(first)) {
		f := first[dir]
		if _, ok := otherwise[dir+" Check"]; !has[dir+" Check"] && !ok {
			cs = append(cs, f.complain(f.ast.Package, "%s: its Store has no Check", dir))
		}
		if _, ok := otherwise[dir+" Wrap"]; !has[dir+" New"] && !has[dir+" Open"] && !ok {
			cs = append(cs, f.complain(f.ast.Package, "%s has neither Open nor New", dir))
		}
	}
	return cs
}

// constructor returns the name of a function that every store has, and what it should be if
// it is something else.
func constructor(fn *ast.FuncDecl) (name, want string) {
	params, results := fieldTypes(fn.Type.Params), fieldTypes(fn.Type.Results)
	switch name = fn.Name.Name; {
	case fn.Recv != nil && name == "Check":
		if params != "context.Context" || results != "[]driver.Finding, error" {
			want = "Check(ctx context.Context) ([]driver.Finding, error)"
		}
	case fn.Recv != nil:
		return "", ""
	case name == "Open":
		if params != "context.Context, string, *Options" || results != "*Store, error" || !named(fn.Type.Params, "url") {
			want = "Open(ctx context.Context, url string, opts *Options) (*Store, error)"
		}
	case name == "New":
		if !strings.HasSuffix(params, ", *Options") || strings.Count(params, ", ") != 1 || results != "*Store, error" {
			want = "New(<client>, opts *Options) (*Store, error)"
		}
	}
	return name, want
}

// fieldTypes lists the types of parameters or results.
func fieldTypes(fields *ast.FieldList) string {
	var all []string
	if fields != nil {
		for _, f := range fields.List {
			for range max(1, len(f.Names)) {
				all = append(all, types.ExprString(f.Type))
			}
		}
	}
	return strings.Join(all, ", ")
}

// named reports whether the second parameter has a name.
func named(fields *ast.FieldList, name string) bool {
	return len(fields.List) > 1 && len(fields.List[1].Names) == 1 && fields.List[1].Names[0].Name == name
}

func TestConstructors(t *testing.T) { checkRepo(t, checkConstructors) }

func TestConstructorsComplain(t *testing.T) {
	const asserted, check = "\n\nvar _ driver.Store = (*Store)(nil)\n", "\nfunc (s *Store) Check(ctx context.Context) ([]driver.Finding, error) { return nil, nil }\n"
	but := func(t tree) []complaint {
		return checkConstructorsBut(t, map[string]string{"store/dstore New": "has no client"})
	}
	wantComplaints(t, but, treeOf(
		"store/astore/a.go", "package astore"+asserted+check+"func Open(ctx context.Context, url string, opts *Options) (*Store, error) { return nil, nil }\n"+
			"func New(client *x.Client, _ *Options) (*Store, error) { return nil, nil }\nfunc (s *Store) Open(ctx context.Context) {}\n",
		"store/bstore/b.go", "package bstore"+asserted+"func Open(ctx context.Context, text string, opts *Options) (*Store, error) { return nil, nil }\n"+
			"func New(client *x.Client) (*Store, error) { return nil, nil }\n",
		"store/cstore/c.go", "package cstore"+asserted+"func (s *Store) Check() error { return nil }\n",
		"store/dstore/d.go", "package dstore"+asserted+check+"func New(opts *Options) *Store { return nil }\n",
		"store/dstore/internal/x/x.go", "package x"+asserted,
	),
		"store/bstore/b.go:4: Open is not Open(ctx context.Context, url string",
		"store/bstore/b.go:5: New is not New(<client>, opts *Options)",
		"store/cstore/c.go:4: Check is not Check(ctx",
		"store/bstore/b.go:1: store/bstore: its Store has no Check",
		"store/cstore/c.go:1: store/cstore has neither Open nor New")
}
