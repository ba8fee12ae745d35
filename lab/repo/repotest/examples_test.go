// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"go/ast"
	"go/doc"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// checkExamples: every example is run, by go test, which compares what it prints, or by a
// test of its package, if it needs a server that may not be installed.
func checkExamples(t tree) []complaint {
	var cs []complaint
	run := runExamples(t)
	for _, f := range t.goFiles() {
		if !f.isTest() {
			continue
		}
		decls := map[string]*ast.FuncDecl{}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				decls[fn.Name.Name] = fn
			}
		}
		for _, ex := range doc.Examples(f.ast) {
			name := "Example" + ex.Name
			if ex.Output == "" && !ex.EmptyOutput && !run[f.dir()+" "+name] {
				cs = append(cs, f.complain(decls[name].Pos(),
					"%s is compiled but never run; end it with an // Output: comment, or give it to servers.Example in a test", name))
			}
		}
	}
	return cs
}

// runExamples returns the examples that tests give to servers.Example, as "folder name".
func runExamples(t tree) map[string]bool {
	run := map[string]bool{}
	for _, f := range t.goFiles() {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !f.isTest() || len(call.Args) < 2 {
				return true
			}
			fn, ok := call.Fun.(*ast.SelectorExpr)
			example, named := call.Args[1].(*ast.Ident)
			if ok && named && fn.Sel.Name == "Example" && isIdent(fn.X, "servers") {
				run[f.dir()+" "+example.Name] = true
			}
			return true
		})
	}
	return run
}

// checkExampleOfEach: a package that users choose among others, which is a store, a guard
// or otelfencelock, has an example that shows how it is used.
func checkExampleOfEach(t tree) []complaint {
	var cs []complaint
	has := map[string]bool{}
	for _, f := range t.goFiles() {
		if f.isTest() && path.Base(f.path) == "example_test.go" && strings.HasSuffix(f.ast.Name.Name, "_test") && len(doc.Examples(f.ast)) > 0 {
			has[f.dir()] = true
		}
	}
	stores := assertedStores(t)
	for _, f := range t.goFiles() {
		dir := f.dir()
		top, _, _ := strings.Cut(dir, "/")
		chosen := top == "store" && stores[dir] || dir == "fence" || top == "fence" && strings.HasSuffix(dir, "fence") || dir == "otelfencelock"
		if f.isTest() || !chosen || has[dir] || inDir(f.path, "internal") {
			continue
		}
		has[dir] = true
		cs = append(cs, f.complain(f.ast.Package, "%s has no example; show its everyday use in %s/example_test.go, package %s_test", dir, dir, f.ast.Name.Name))
	}
	return cs
}

var fromComment = regexp.MustCompile(`^<!--\s*from:\s*(\S+)\s*-->$`)

// checkCopiedCode: code that a document shows as taken from a file is in that
// file, word for word. The line before the block says which:
//
//	<!-- from: example_test.go -->
//
// Go code in a README at the top must be taken from a file; elsewhere it may be.
func checkCopiedCode(t tree) []complaint {
	var cs []complaint
	for _, p := range t.paths(".md") {
		lines := t.lines(p)
		blocks, _ := fences(lines)
		for _, b := range blocks {
			source := ""
			if m := fromComment.FindStringSubmatch(lineBefore(lines, b.line)); m != nil {
				source = path.Join(path.Dir(p), m[1])
			}
			text, exists := t[source]
			switch {
			case source == "" && !strings.Contains(p, "/") && strings.HasPrefix(p, "README") && b.lang == "go":
				cs = append(cs, complaint{p, b.line, "nothing checks this code; take it from an example and put <!-- from: file_test.go --> before it"})
			case source != "" && !exists:
				cs = append(cs, complaint{p, b.line, "the code is said to be from " + source + ", which does not exist"})
			case source != "" && !containsBlock(strings.Split(string(text), "\n"), b.body):
				cs = append(cs, complaint{p, b.line, "the code is not in " + source + "; copy it from there again"})
			}
		}
	}
	return cs
}

// lineBefore returns the last line with text before line n, counted from 1.
func lineBefore(lines []string, n int) string {
	for i := n - 2; i >= 0; i-- {
		if l := strings.TrimSpace(lines[i]); l != "" {
			return l
		}
	}
	return ""
}

// containsBlock reports whether some run of lines equals want, however deep
// either is indented.
func containsBlock(lines, want []string) bool {
	want = dedent(want)
	for i := 0; i+len(want) <= len(lines); i++ {
		if slices.Equal(dedent(lines[i:i+len(want)]), want) {
			return true
		}
	}
	return false
}

// dedent takes away the indentation that all lines have in common. A tab at
// the start of a line is as good as four spaces.
func dedent(lines []string) []string {
	out := make([]string, len(lines))
	least := -1
	for i, l := range lines {
		body := strings.TrimLeft(l, "\t ")
		if body == "" {
			continue
		}
		lead := strings.ReplaceAll(l[:len(l)-len(body)], "\t", "    ")
		out[i] = lead + strings.TrimRight(body, " \t")
		if least < 0 || len(lead) < least {
			least = len(lead)
		}
	}
	for i, l := range out {
		if l != "" {
			out[i] = l[least:]
		}
	}
	return out
}

func TestExamples(t *testing.T)      { checkRepo(t, checkExamples) }
func TestExampleOfEach(t *testing.T) { checkRepo(t, checkExampleOfEach) }
func TestCopiedCode(t *testing.T)    { checkRepo(t, checkCopiedCode) }

func TestExamplesComplain(t *testing.T) {
	wantComplaints(t, checkExamples, treeOf("a_test.go", strings.Join([]string{
		"package a_test",
		"func Example() {\n\t// Output: 1\n}",
		"func Example_two() {\n\t// Unordered output: 1\n}",
		"func ExampleF_none() {\n\tprintln()\n}",
		"func ExampleQuiet() {\n\t// Output:\n}",
		"func ExampleServer() {}",
	}, "\n"), "b_test.go", "package a_test\nfunc TestExamples() { servers.Example(t, ExampleServer, \"URL\", url, want) }\n",
		"b/b_test.go", "package b_test\nfunc ExampleServer() {}\nfunc TestExamples() { other.Example(t, ExampleServer) }\n"),
		"a_test.go:8: ExampleF_none is compiled but never run", "b/b_test.go:2: ExampleServer is compiled but never run")
}

func TestExampleOfEachComplains(t *testing.T) {
	const asserted, example = "\n\nvar _ driver.Store = (*Store)(nil)\n", "_test\n\nfunc Example() {}\n"
	wantComplaints(t, checkExampleOfEach, treeOf(
		"fence/afence/a.go", "package afence\n", "fence/afence/example_test.go", "package afence"+example,
		"fence/bfence/b.go", "package bfence\n", "fence/bfence/example_test.go", "package bfence\n\nfunc Example() {}\n",
		"fence/fencetest/f.go", "package fencetest\n",
		"otelfencelock/a.go", "package otelfencelock\n", "otelfencelock/example_test.go", "package otelfencelock_test\n\nfunc helper() {}\n",
		"store/astore/a.go", "package astore"+asserted, "store/astore/b.go", "package astore\n",
		"store/astore/b_test.go", "package astore"+example,
		"store/astore/internal/x/x.go", "package x"+asserted,
		"store/bstore/b.go", "package bstore"+asserted, "store/bstore/example_test.go", "package bstore"+example,
	),
		"fence/bfence/b.go:1: fence/bfence has no example",
		"otelfencelock/a.go:1: otelfencelock has no example",
		"store/astore/a.go:1: store/astore has no example")
}

func TestCopiedCodeComplains(t *testing.T) {
	const good = "```go\nif x {\n    y()\n\n}\n```\n"
	readme := strings.Join([]string{
		"<!-- from: a_test.go -->\n" + good,
		"<!-- from: a_test.go -->\n\n" + strings.Replace(good, "y", "z", 1),
		"<!-- from: none_test.go -->\n" + good,
		"Unmarked:\n" + good,
		"```sh\nls\n```\n",
	}, "")
	wantComplaints(t, checkCopiedCode, treeOf(
		"README.md", readme,
		"docs/b.md", "<!-- from: ../a_test.go -->\n"+good+"text\n"+good,
		"a_test.go", "package a\nfunc f() {\n\tif x {\n\t\ty()\n\n\t}\n}\n",
	),
		"README.md:10: the code is not in a_test.go",
		"README.md:17: the code is said to be from none_test.go",
		"README.md:24: nothing checks this code",
	)
}
