// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
)

// isPublic reports whether users import the package of a file.
func isPublic(f goFile) bool {
	tool := []string{"lab", "cmd", "examples", "clients"}
	top, _, _ := strings.Cut(f.path, "/")
	return !f.isTest() && f.ast.Name.Name != "main" && !inDir(f.path, "internal") && !inDir(f.path, "testdata") && !slices.Contains(tool, top)
}

// surface returns the exported declarations of all public packages, without comments: what a change of the API changes.
func surface(t tree) string {
	packages := map[string][]string{}
	for _, f := range t.goFiles() {
		if !isPublic(f) {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, f.path, t[f.path], parser.SkipObjectResolution) // without comments, and ours to cut
		if err != nil {
			panic(err)
		}
		ast.FileExports(file)
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.StructType); ok {
				s.Incomplete = false // a field that nobody sees may come and go
			}
			return true
		})
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
				continue
			}
			if fn, ok := d.(*ast.FuncDecl); ok {
				fn.Body = nil
			}
			var text bytes.Buffer
			if err := format.Node(&text, fset, d); err != nil {
				panic(err)
			}
			packages[f.dir()] = append(packages[f.dir()], text.String())
		}
	}
	var b strings.Builder
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		slices.Sort(packages[dir])
		fmt.Fprintf(&b, "== %s\n\n%s\n\n", dir, strings.Join(packages[dir], "\n"))
	}
	return b.String()
}

// snapshot has the API as it is meant to be. A change of it is a visible line in a diff, and belongs into CHANGELOG.md.
const snapshot = "testdata/api.txt"

var updateAPI = flag.Bool("api.update", false, "write "+snapshot)

// TestAPI: the exported declarations are those of the snapshot. After a change that is meant, run
//
//	go test ./lab/repo/repotest -run TestAPI -api.update
func TestAPI(t *testing.T) {
	files, err := repo()
	must.OK(t, err)
	got := surface(files)
	if *updateAPI {
		must.OK(t, os.WriteFile(snapshot, []byte(got), 0o644))
	}
	want, err := os.ReadFile(snapshot)
	must.OK(t, err)
	differ := differing(string(want), got)
	figure.Print("api-snapshot-differs", len(differ), figure.Exactly(0))
	for _, l := range differ {
		t.Errorf("%s\nif this is meant, run go test ./lab/repo/repotest -run TestAPI -api.update, and name it in CHANGELOG.md", l)
	}
}

// differing returns the lines that only one of two texts has.
func differing(before, after string) []string {
	var all []string
	for sign, pair := range map[string][2]string{"-": {before, after}, "+": {after, before}} {
		other := map[string]bool{}
		for l := range strings.Lines(pair[1]) {
			other[l] = true
		}
		for l := range strings.Lines(pair[0]) {
			if !other[l] {
				all = append(all, sign+" "+strings.TrimSpace(l))
			}
		}
	}
	slices.Sort(all)
	return all
}

func TestSurfaceShowsAChange(t *testing.T) {
	before := surface(treeOf("a/a.go", "package a\n// F is.\nfunc F(n int) { g() }\nfunc g() {}\ntype T struct {\n\tA int\n\tb int\n}\n", "a/internal/b.go", "package b\nfunc H() {}\n"))
	after := surface(treeOf("a/a.go", "package a\n// F was.\nfunc F(n int64) {}\ntype T struct {\n\tA int\n}\n", "lab/c.go", "package c\nfunc I() {}\n"))
	if got := differing(before, after); !slices.Equal(got, []string{"+ func F(n int64)", "- func F(n int)"}) {
		t.Errorf("got %q", got)
	}
}

// longComments returns the doc comments of exported declarations with more than so many words. The comment of a package
// is a page of its own.
func longComments(t tree, most int) []complaint {
	var cs []complaint
	for _, f := range t.goFiles() {
		if !isPublic(f) {
			continue
		}
		for _, d := range f.ast.Decls {
			doc, name := documented(d)
			if n := len(strings.Fields(doc.Text())); doc != nil && ast.IsExported(name) && n > most {
				cs = append(cs, f.complain(doc.Pos(), "the comment of %s has %d words; two lines first, and details in the package comment or a page", name, n))
			}
		}
	}
	return cs
}

// documented returns the comment and the name of a declaration.
func documented(d ast.Decl) (*ast.CommentGroup, string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Doc, d.Name.Name
	case *ast.GenDecl:
		if len(d.Specs) == 1 {
			if s, ok := d.Specs[0].(*ast.TypeSpec); ok {
				return d.Doc, s.Name.Name
			}
		}
	}
	return nil, ""
}

// rootNames returns the exported identifiers of the root package, and the types among them.
func rootNames(t tree) (all, types []string) {
	for _, f := range t.goFiles() {
		if f.dir() != "." || f.isTest() {
			continue
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.IsExported() {
					all = append(all, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						if s.Name.IsExported() {
							all, types = append(all, s.Name.Name), append(types, s.Name.Name)
						}
					case *ast.ValueSpec:
						for _, n := range s.Names {
							if n.IsExported() {
								all = append(all, n.Name)
							}
						}
					}
				}
			}
		}
	}
	return all, types
}

// withoutExample returns the types of the root package that no example of it shows: by its name, or by being used in one,
// itself or one of its constants.
func withoutExample(t tree, types []string) []string {
	shown := map[string]bool{}
	constants := map[string]string{"Efficiency": "Need", "LeaseReleased": "EventKind", "LossMaxHold": "LossReason", "Once": "OnceResult"}
	for _, f := range t.goFiles() {
		if f.dir() != "." || !f.isTest() {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Example") {
				name, _, _ := strings.Cut(strings.TrimPrefix(fn.Name.Name, "Example"), "_")
				shown[name], shown[constants[name]] = true, true
				ast.Inspect(fn, func(n ast.Node) bool {
					if s, ok := n.(*ast.SelectorExpr); ok && fmt.Sprint(s.X) == "fencelock" {
						shown[s.Sel.Name], shown[constants[s.Sel.Name]] = true, true
					}
					return true
				})
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(types), func(name string) bool { return shown[name] })
}

// ownFormat are the stores with a format of our own. What is one setting has one name in all of them.
var ownFormat = []string{"store/redisstore", "store/redisstore/rueidisstore", "store/sqlstore", "store/etcdstore", "store/zkstore", "store/memcachestore"}

// otherNames are names that a store must not give to a setting that has another name elsewhere.
var otherNames = map[string]string{"Prefix": "Namespace", "Root": "Namespace", "KeyPrefix": "Namespace", "Path": "Namespace", "TTLMax": "MaxTTL",
	"OnWarning": "Warn", "Dialer": "Dial", "Shards": "Buckets", "GracePeriod": "Grace"}

// oddOptions returns the stores with such a name, or without a Namespace.
func oddOptions(t tree) []complaint {
	var cs []complaint
	for _, dir := range ownFormat {
		found := false
		for _, f := range t.goFiles() {
			if f.dir() != dir || f.isTest() {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				s, ok := n.(*ast.TypeSpec)
				if !ok || s.Name.Name != "Options" {
					return true
				}
				options, ok := s.Type.(*ast.StructType)
				if !ok { // an alias of those of another store
					found = true
					return false
				}
				for _, field := range options.Fields.List {
					for _, name := range field.Names {
						found = found || name.Name == "Namespace"
						if better := otherNames[name.Name]; better != "" {
							cs = append(cs, f.complain(name.Pos(), "Options.%s is called %s in other stores", name.Name, better))
						}
					}
				}
				return false
			})
		}
		if !found {
			cs = append(cs, complaint{path.Join(dir, "store.go"), 1, "Options has no Namespace"})
		}
	}
	return cs
}

// TestAPIFigures prints what make figures-api is about.
func TestAPIFigures(t *testing.T) {
	files, err := repo()
	must.OK(t, err)
	all, types := rootNames(files)
	long, bare, odd := longComments(files, 120), withoutExample(files, types), oddOptions(files)
	for _, f := range []figure.Figure{
		{Name: "api-root-identifiers", Value: float64(len(all)), Goal: figure.AtMost(80)},
		{Name: "api-doc-comments-over-120-words", Value: float64(len(long)), Goal: figure.Exactly(0)},
		{Name: "api-without-example", Value: float64(len(bare)), Goal: figure.Exactly(0)},
		{Name: "api-stores-with-different-option-names", Value: float64(len(odd)), Goal: figure.Exactly(0)},
	} {
		fmt.Println(f)
		if !f.Met() {
			t.Errorf("%v", f)
		}
	}
	for _, c := range slices.Concat(long, odd) {
		t.Error(c)
	}
	for _, name := range bare {
		t.Errorf("type %s has no Example%s", name, name)
	}
}
