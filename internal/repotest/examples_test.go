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

// checkExamples: every example is run, and what it prints is compared.
func checkExamples(t tree) []complaint {
	var cs []complaint
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
			if ex.Output == "" && !ex.EmptyOutput {
				name := "Example" + ex.Name
				cs = append(cs, f.complain(decls[name].Pos(), "%s is compiled but never run; end it with an // Output: comment", name))
			}
		}
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

// containsBlock tells whether some run of lines equals want, however deep
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

func TestExamples(t *testing.T)   { checkRepo(t, checkExamples) }
func TestCopiedCode(t *testing.T) { checkRepo(t, checkCopiedCode) }

func TestExamplesComplain(t *testing.T) {
	wantComplaints(t, checkExamples, treeOf("a_test.go", strings.Join([]string{
		"package a_test",
		"func Example() {\n\t// Output: 1\n}",
		"func Example_two() {\n\t// Unordered output: 1\n}",
		"func ExampleF_none() {\n\tprintln()\n}",
		"func ExampleQuiet() {\n\t// Output:\n}",
	}, "\n")), "a_test.go:8: ExampleF_none is compiled but never run")
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
