// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
)

// contributorPages are the pages of docs/ for those who change fencelock; all others are for its users. Decisions are for
// contributors, too.
var contributorPages = []string{"docs/spec.md", "docs/redis-layout.md", "docs/driver-guide.md", "docs/releasing.md"}

// adopterPages are what a user reads before the first lock in production, with one store.
var adopterPages = []string{"README.md", "docs/tutorial.md", "docs/which-lock.md", "docs/recipes.md", "docs/fencing.md", "docs/guarantees.md",
	"docs/troubleshooting.md", "docs/production.md", "docs/redis.md"}

// word is what a reader reads: marks of tables, lists and headings are none.
var word = regexp.MustCompile(`[\p{L}\p{N}]`)

// toolComment is a line for tools, which a page does not show: where code is from, who checks a command.
var toolComment = regexp.MustCompile(`(?m)^\s*<!--.*?-->\s*$`)

// docWords counts the words of a page, code included.
func docWords(text []byte) (n int) {
	for f := range strings.FieldsSeq(toolComment.ReplaceAllString(string(text), "")) {
		if word.MatchString(f) {
			n++
		}
	}
	return n
}

// writtenDocs are the Markdown files that people write: neither results that programs write, nor the changelog.
func writtenDocs(t tree) (pages []string) {
	for _, p := range t.paths(".md") {
		if !strings.HasPrefix(p, "lab/results/") && p != "CHANGELOG.md" && p != "CODE_OF_CONDUCT.md" && !inDir(p, "testdata") {
			pages = append(pages, p)
		}
	}
	return pages
}

// userPages are the pages of docs/ for users in English, and the README.
func userPages(t tree) (pages []string) {
	for _, p := range writtenDocs(t) {
		contributor := path.Dir(p) == "docs/decisions"
		for _, c := range contributorPages {
			contributor = contributor || p == c
		}
		if p == "README.md" || strings.HasPrefix(p, "docs/") && !contributor && !strings.Contains(p, "zh-CN") {
			pages = append(pages, p)
		}
	}
	return pages
}

// measured is a figure with its value in a sentence: `redis-handoff-vs-pingpong-2` … 1.77. Values are in lab/results alone.
var measured = regexp.MustCompile("`[a-z0-9]+(-[a-z0-9]+){2,}`[^`]{0,80}?\\b[0-9]+\\.[0-9]+\\b")

// checkNumbers: a measured number is in one place.
func checkNumbers(t tree) (cs []complaint) {
	for _, p := range writtenDocs(t) {
		if strings.HasPrefix(p, "lab/") {
			continue // pages of the tools explain their own figures
		}
		_, prose := fences(t.lines(p))
		for i, l := range prose {
			if m := measured.FindString(l); m != "" {
				cs = append(cs, complaint{p, i + 1, sprint("%q is a measured number; link lab/results instead", m)})
			}
		}
	}
	return cs
}

// TestNumbersAreWrittenOnce: prose links to what was measured.
func TestNumbersAreWrittenOnce(t *testing.T) { checkRepo(t, checkNumbers) }

func TestNumbersComplain(t *testing.T) {
	wantComplaints(t, checkNumbers, treeOf(
		"docs/a.md", "| rate | `pg-uncontended-vs-two-commits` | 0.43 |\n`max-ttl` is 15.0 s, and `a-b-c` has no number.\n",
		"lab/results/a.md", "`pg-uncontended-vs-two-commits` 0.43\n",
	), "docs/a.md:1: ")
}

// TestDocsFigures prints what make figures-docs shows. It does not fail: the counts come down piece by piece.
func TestDocsFigures(t *testing.T) {
	files, err := repo()
	must.OK(t, err)
	all, adopter := 0, 0
	for _, p := range writtenDocs(files) {
		all += docWords(files[p])
	}
	for _, p := range adopterPages {
		adopter += docWords(files[p])
	}
	programs := 0
	for _, f := range files.goFiles() {
		if strings.HasPrefix(f.path, "examples/") && f.ast.Name.Name == "main" && !f.isTest() {
			programs++
		}
	}
	figure.Print("docs-words", all, figure.AtMost(50000))
	figure.Print("docs-user-pages", len(userPages(files)), figure.AtMost(27))
	figure.Print("docs-readme-words", docWords(files["README.md"]), figure.AtMost(900))
	figure.Print("docs-adopter-words", adopter, figure.AtMost(11000))
	figure.Print("docs-numbers-written-twice", len(checkNumbers(files)), figure.Exactly(0))
	figure.Print("docs-examples-run", programs, figure.AtLeast(5))
	figure.Print("docs-links-broken", len(checkLinks(files)), figure.Exactly(0))
}

func TestDocsAreCounted(t *testing.T) {
	if got := docWords([]byte("# Two words\n\n| a | --- |\n<!-- from: a.go -->\n- `b`\n")); got != 4 {
		t.Errorf("got %d words, want 4", got)
	}
	files := treeOf("README.md", "", "docs/a.md", "", "docs/spec.md", "", "docs/decisions/0001-a.md", "", "docs/zh-CN/a.md", "", "lab/results/a.md", "", "CHANGELOG.md", "")
	if got := len(userPages(files)); got != 2 {
		t.Errorf("got %d user pages, want README.md and docs/a.md", got)
	}
}
