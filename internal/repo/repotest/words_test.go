// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"flag"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/fencelock/fencelock/internal/figure"
)

var lowerWords = flag.Bool("words.lower", false, "write lower counts into words.txt, and fewer pages into tasks.txt")

const phrases = "internal/repo/repotest/words.txt"

// wordsAllowed are lines that may have a phrase of words.txt, with the reason. text is a
// part of the line.
var wordsAllowed = []struct{ path, text, reason string }{
	{"docs/decisions/0027-folders-by-role.md", "were called a zoo", "the decision quotes the name that it replaced"},
	{"driver/caps.go", "Engine is the server's name", "the doc comment of Caps.Engine"},
	{"internal/core/retention_test.go", "hand-over-hand", "the name of a locking technique"},
}

// A wordHit is a phrase of words.txt in a text.
type wordHit struct {
	path   string
	line   int
	term   int
	phrase string
	text   string // of the line
}

// A passage is consecutive lines of prose in a file.
type passage struct {
	path  string
	line  int // of the first of them
	lines []string
}

// hidden is the part of a link or a comment that readers do not see.
var hidden = regexp.MustCompile(`\]\([^)]*\)|<!--.*?-->|https?://\S+`)

// prose returns what people read: Markdown without code, comments of Go files, and texts
// such as errors and help.
func prose(t tree) []passage {
	var ps []passage
	for _, p := range pages(t) {
		_, lines := fences(t.lines(p))
		for i, l := range lines {
			lines[i] = hidden.ReplaceAllString(withoutCode(l), "]")
		}
		ps = append(ps, passage{p, 1, lines})
	}
	for _, f := range t.goFiles() {
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				// Lines of one group are put together below: a phrase may go over the end of a line.
				ps = append(ps, passage{f.path, f.line(c.Pos()), strings.Split(c.Text, "\n")})
			}
		}
		f.texts(func(pos token.Pos, text string) {
			ps = append(ps, passage{f.path, f.line(pos), strings.Split(text, "\n")})
		})
	}
	return joined(ps)
}

// joined puts passages together that follow each other, such as the lines of a comment.
func joined(ps []passage) []passage {
	var all []passage
	for _, p := range ps {
		if n := len(all); n > 0 && all[n-1].path == p.path && all[n-1].line+len(all[n-1].lines) == p.line {
			all[n-1].lines = append(all[n-1].lines, p.lines...)
			continue
		}
		all = append(all, p)
	}
	return all
}

// wordHits returns the phrases of words.txt in what people read. A phrase does not go over
// an empty line.
func wordHits(t tree, ts []term) []wordHit {
	var hits []wordHit
	byForm := index(ts)
	for _, p := range prose(t) {
		var list []string
		var lineOf []int
		for i, l := range p.lines {
			ws := words(l)
			if len(ws) == 0 {
				ws = []string{""}
			}
			for _, w := range ws {
				list, lineOf = append(list, w), append(lineOf, i)
			}
		}
		found(list, byForm, func(k, at int) {
			i := lineOf[at]
			hits = append(hits, wordHit{p.path, p.line + i, k, ts[k].forms[0], p.lines[i]})
		})
	}
	return hits
}

// allowed reports whether the allow list has a hit, and marks what it used.
func (h wordHit) allowed(used map[int]bool) bool {
	for i, a := range wordsAllowed {
		if h.path == a.path && strings.Contains(h.text, a.text) {
			used[i] = true
			return true
		}
	}
	return false
}

// wordCounts counts the hits that the allow list does not have, by term and file, and
// returns the lines of the allow list that allow nothing.
func wordCounts(ts []term, hits []wordHit) (counts []map[string]int, unused []complaint) {
	counts = make([]map[string]int, len(ts))
	for i := range counts {
		counts[i] = map[string]int{}
	}
	used := map[int]bool{}
	for _, h := range hits {
		if !h.allowed(used) {
			counts[h.term][h.path]++
		}
	}
	for i, a := range wordsAllowed {
		if !used[i] {
			unused = append(unused, complaint{a.path, 1, sprint("no phrase of words.txt is left in %q; take it off wordsAllowed", a.text)})
		}
	}
	return counts, unused
}

// checkWords: no phrase occurs more often than words.txt allows.
func checkWords(t tree) []complaint {
	ts, err := terms(phrases, t.lines(phrases))
	if err != nil {
		return []complaint{{phrases, 1, err.Error()}}
	}
	counts, unused := wordCounts(ts, wordHits(t, ts))
	return append(unused, risen(phrases, ts, counts)...)
}

// readmeWords counts the words of a document as a reader does: code and tables count, the
// targets of links and marks without a letter or a digit do not.
func readmeWords(lines []string) int {
	n := 0
	for _, l := range lines {
		for _, w := range strings.Fields(hidden.ReplaceAllString(l, "]")) {
			if strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
				n++
			}
		}
	}
	return n
}

// firstCodeLine is the line of the first Go code in a document, or a line after its end.
func firstCodeLine(lines []string) int {
	blocks, _ := fences(lines)
	for _, b := range blocks {
		if b.lang == "go" {
			return b.line + 1
		}
	}
	return len(lines) + 1
}

// TestWords fails if a phrase of words.txt became more frequent. With -v it lists where the
// phrases are.
func TestWords(t *testing.T) {
	files, err := repo()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checkWords(files) {
		t.Error(c)
	}
	ts, err := terms(phrases, files.lines(phrases))
	if err != nil {
		t.Fatal(err)
	}
	hits := wordHits(files, ts)
	for _, h := range hits {
		t.Logf("%s:%d: %s: %s", h.path, h.line, h.phrase, strings.TrimSpace(h.text))
	}
	if *lowerWords {
		counts, _ := wordCounts(ts, hits)
		text := strings.Join(lowered(files.lines(phrases), ts, counts), "\n") + "\n"
		if err := os.WriteFile(root+"/"+phrases, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWordFigures prints what make figures-words shows.
func TestWordFigures(t *testing.T) {
	files, err := repo()
	if err != nil {
		t.Fatal(err)
	}
	ts, err := terms(phrases, files.lines(phrases))
	if err != nil {
		t.Fatal(err)
	}
	readme := files.lines("README.md")
	figure.Print("readme-words", readmeWords(readme), figure.AtMost(1100))
	figure.Print("readme-first-code-line", firstCodeLine(readme), figure.AtMost(30))
	figure.Print("words-banned", len(wordHits(files, ts)), figure.AtMost(40))
	figure.Print("doc-pages-without-task", len(withoutTask(files)), figure.Exactly(0))
}

func TestWordsComplain(t *testing.T) {
	const table = "# phrase | use | left\nsomebody | caller | 1\nof its own | its own | 0\nengine | server | 0\n"
	files := treeOf(phrases, table,
		"docs/a.md", "# A\n\nSomebody has a lock of its\nown. `somebody` [x](somebody.md)\n```\nsomebody\n```\nof its\n\nown\n",
		"a.go", "package a\n\n// f has a queue of\n// its own, see Caps.Engine.\nfunc f() error { return errors.New(\"no somebody\") }\n",
		"a_test.go", "package a\n\nconst text = \"no somebody\"\n\nconst one = \"somebody\" // the engine\n")
	defer func(saved []struct{ path, text, reason string }) { wordsAllowed = saved }(wordsAllowed)
	wordsAllowed = []struct{ path, text, reason string }{{"a_test.go", "the engine", "its name"}, {"b.go", "x", "stale"}}
	wantComplaints(t, checkWords, files,
		`b.go:1: no phrase of words.txt is left in "x"`,
		phrases+`:2: "somebody" occurs 2 times, 1 are left from before; write caller. It is in: a.go 1, docs/a.md 1`,
		phrases+`:3: "of its own" occurs 2 times, 0 are left from before; write its own. It is in: a.go 1, docs/a.md 1`)
	lines := strings.Split("# A B\n[one two](x/y.md) three\n```sh\nls\n```\n```go\nf()\n```", "\n")
	if got := readmeWords(lines); got != 9 {
		t.Errorf("readmeWords: got %d, want 9", got)
	}
	if got := firstCodeLine(lines); got != 7 {
		t.Errorf("firstCodeLine: got %d, want 7", got)
	}
	if got := firstCodeLine(lines[:2]); got != 3 {
		t.Errorf("firstCodeLine without code: got %d, want 3", got)
	}
}
