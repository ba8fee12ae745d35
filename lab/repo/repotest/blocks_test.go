// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"go/doc"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// goStatement is a line that only Go has.
var goStatement = regexp.MustCompile(`^\s*(\w+(, \w+)* := |func [\w(]|defer |package \w+$)`)

// checkCodeBlocks: Go code in a document is taken from a file that is compiled, so
// that the compiler sees it. checkCopiedCode compares the two. Code that is not
// called Go, to escape that, is found by its first words.
func checkCodeBlocks(t tree) []complaint {
	var cs []complaint
	for _, p := range pages(t) {
		lines := t.lines(p)
		blocks, _ := fences(lines)
		for _, b := range blocks {
			source := ""
			if m := fromComment.FindStringSubmatch(lineBefore(lines, b.line)); m != nil {
				source = path.Join(path.Dir(p), m[1])
			}
			switch {
			case b.lang == "go" && source == "":
				cs = append(cs, complaint{p, b.line, "nothing compiles this code; put it into a Go file and <!-- from: that/file.go --> before it"})
			case b.lang == "go" && (!strings.HasSuffix(source, ".go") || inDir(source, "testdata")):
				cs = append(cs, complaint{p, b.line, source + " is not compiled; take the code from a Go file that is"})
			case b.lang != "go" && firstGoLine(b.body) >= 0:
				cs = append(cs, complaint{p, b.line + 1 + firstGoLine(b.body), "this is Go; call the block go, so that it is checked"})
			}
		}
	}
	return cs
}

// firstGoLine returns the first line that is Go, or -1.
func firstGoLine(body []string) int {
	for i, l := range body {
		if goStatement.MatchString(l) {
			return i
		}
	}
	return -1
}

// pages are the Markdown files that users read.
func pages(t tree) []string {
	var ps []string
	for _, p := range t.paths(".md") {
		if !inDir(p, "testdata") {
			ps = append(ps, p)
		}
	}
	return ps
}

// counts returns how much there is to check. A check whose pattern finds nothing would
// pass forever.
func counts(t tree) map[string]int {
	n := map[string]int{"pages": len(pages(t))}
	for _, p := range pages(t) {
		blocks, prose := fences(t.lines(p))
		for _, b := range blocks {
			if b.lang == "go" {
				n["Go code blocks"]++
			}
		}
		for _, l := range prose {
			for _, m := range inlineLink.FindAllStringSubmatch(withoutCode(l), -1) {
				if !strings.Contains(m[1], "://") {
					n["links inside the repository"]++
				}
			}
			n["names of tests in prose"] += len(testName.FindAllString(l, -1))
		}
	}
	for _, f := range t.goFiles() {
		if f.isTest() {
			n["examples"] += len(doc.Examples(f.ast))
		}
	}
	return n
}

func TestCodeBlocks(t *testing.T) { checkRepo(t, checkCodeBlocks) }

func TestCounts(t *testing.T) {
	files, err := repo()
	must.OK(t, err)
	found := counts(files)
	for _, what := range []string{"pages", "links inside the repository", "Go code blocks", "examples", "names of tests in prose"} {
		n := found[what]
		if n == 0 {
			t.Errorf("no %s were found; the checks of them check nothing", what)
		}
		t.Logf("counted: %d %s", n, what) // make docs-check prints it
	}
}

func TestCodeBlocksComplain(t *testing.T) {
	wantComplaints(t, checkCodeBlocks, treeOf(
		"docs/a.md", strings.Join([]string{
			"<!-- from: ../a.go -->\n```go\nx()\n```",
			"```go\nx()\n```",
			"<!-- from: ../testdata/a.go -->\n```go\nx()\n```",
			"<!-- from: ../a.txt -->\n```go\nx()\n```",
			"```\nls\nl, err := lock()\n```",
			"```sh\nls := x\n```",
			"```text\nall is well\n```",
		}, "\n"),
		"testdata/b.md", "```go\nx()\n```\n",
	),
		"docs/a.md:5: nothing compiles this code",
		"docs/a.md:9: testdata/a.go is not compiled",
		"docs/a.md:13: a.txt is not compiled",
		"docs/a.md:18: this is Go",
		"docs/a.md:21: this is Go",
	)
}
