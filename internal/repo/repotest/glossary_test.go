// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var lowerGlossary = flag.Bool("glossary.lower", false, "write lower counts into glossary.txt")

const glossary = "internal/repo/repotest/glossary.txt"

// A term is a line of glossary.txt or words.txt.
type term struct {
	line    int
	forms   []string // the old word in its forms, lower case; a form may have two words
	use     string   // what to write instead
	allowed int      // how often it may still occur
}

// terms parses glossary.txt or words.txt: forms separated by commas, what to use, and the allowance.
func terms(file string, lines []string) ([]term, error) {
	var ts []term
	for i, l := range lines {
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		cells := strings.Split(l, "|")
		if len(cells) != 3 {
			return nil, fmt.Errorf("%s:%d: %d columns, want 3", file, i+1, len(cells))
		}
		n, err := strconv.Atoi(strings.TrimSpace(cells[2]))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
		t := term{line: i + 1, use: strings.TrimSpace(cells[1]), allowed: n}
		for form := range strings.SplitSeq(cells[0], ",") {
			t.forms = append(t.forms, strings.TrimSpace(form))
		}
		ts = append(ts, t)
	}
	return ts, nil
}

// usual are words beside each other that are right, although the table has one of them.
var usual = map[string]bool{"zoo keeper": true, "in flight": true, "look up": true,
	"caps engine":   true, // a name of package driver
	"extract epoch": true, // a function of PostgreSQL
	"engine inno":   true} // ENGINE=InnoDB of MySQL

// words splits a name or a text into lower-case words: a change to upper case begins one,
// and the last letter of several in upper case belongs to the next, as in HTTPServer.
func words(text string) []string {
	var list []string
	start := -1
	end := func(i int) {
		if start >= 0 {
			list = append(list, strings.ToLower(text[start:i]))
		}
		start = -1
	}
	for i := range len(text) {
		switch {
		case !isLower(text[i]) && !isUpper(text[i]):
			end(i)
			continue
		case start >= 0 && isUpper(text[i]) && (isLower(text[i-1]) || i+1 < len(text) && isLower(text[i+1]) && text[i+1:] != "s"):
			end(i)
		}
		if start < 0 {
			start = i
		}
	}
	end(len(text))
	return list
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }

// index returns the place of a term by each of its forms.
func index(ts []term) map[string]int {
	byForm := map[string]int{}
	for i, t := range ts {
		for _, form := range t.forms {
			byForm[form] = i
		}
	}
	return byForm
}

// found calls use with the index of each term in a list of words, and with the index of
// its first word; a form has at most three words.
func found(list []string, byForm map[string]int, use func(term, at int)) {
	for i := 0; i < len(list); i++ {
		if i+1 < len(list) && usual[list[i]+" "+list[i+1]] {
			i++
			continue
		}
		for n := 1; n <= 3 && i+n <= len(list); n++ {
			if k, ok := byForm[strings.Join(list[i:i+n], " ")]; ok {
				use(k, i)
			}
		}
	}
}

// named calls use with every name that the file declares, and every text.
func (f goFile) named(use func(text string)) {
	f.texts(func(_ token.Pos, text string) { use(text) })
	name := func(ids ...*ast.Ident) {
		for _, id := range ids {
			use(id.Name)
		}
	}
	defined := func(tok token.Token, exprs ...ast.Expr) {
		for _, e := range exprs {
			if id, ok := e.(*ast.Ident); ok && tok == token.DEFINE {
				name(id)
			}
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			name(n.Name)
		case *ast.TypeSpec:
			name(n.Name)
		case *ast.ValueSpec:
			name(n.Names...)
		case *ast.LabeledStmt:
			name(n.Label)
		case *ast.AssignStmt:
			defined(n.Tok, n.Lhs...)
		case *ast.RangeStmt:
			defined(n.Tok, n.Key, n.Value)
		case *ast.Field:
			name(n.Names...)
		}
		return true
	})
}

// texts calls use with every text: a string with a space outside tests. A text of
// internal/mutants quotes code that is named where it is declared.
func (f goFile) texts(use func(pos token.Pos, text string)) {
	if f.isTest() || strings.HasPrefix(f.path, "internal/mutants/") {
		return
	}
	tags := map[*ast.BasicLit]bool{}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			tags[n.Tag] = true
		case *ast.BasicLit:
			if !tags[n] && n.Kind == token.STRING && strings.Contains(n.Value, " ") {
				if s, err := strconv.Unquote(n.Value); err == nil {
					use(n.Pos(), s)
				}
			}
		}
		return true
	})
}

// glossaryHits counts, for each term, its occurrences by file.
func glossaryHits(t tree, ts []term) []map[string]int {
	hits := make([]map[string]int, len(ts))
	for i := range hits {
		hits[i] = map[string]int{}
	}
	byForm := index(ts)
	packages := map[string]bool{} // a package counts once, not in each of its files
	for _, f := range t.goFiles() {
		count := func(text string) {
			if f.path == "driver/caps.go" && text == "Engine" {
				return // Caps.Engine, the one that stays
			}
			found(words(text), byForm, func(i, _ int) { hits[i][f.path]++ })
		}
		if id := f.dir() + " " + f.ast.Name.Name; !packages[id] {
			packages[id] = true
			count(f.ast.Name.Name)
		}
		f.named(count)
	}
	return hits
}

func sum(counts map[string]int) int {
	n := 0
	for c := range maps.Values(counts) {
		n += c
	}
	return n
}

// checkGlossary: no old word occurs more often than glossary.txt allows, so that
// renaming only lowers the counts.
func checkGlossary(t tree) []complaint {
	ts, err := terms(glossary, t.lines(glossary))
	if err != nil {
		return []complaint{{glossary, 1, err.Error()}}
	}
	return risen(glossary, ts, glossaryHits(t, ts))
}

// risen complains about terms that occur more often than allowed.
func risen(file string, ts []term, hits []map[string]int) []complaint {
	var cs []complaint
	for i, counts := range hits {
		if n := sum(counts); n > ts[i].allowed {
			cs = append(cs, complaint{file, ts[i].line, sprint("%q occurs %d times, %d are left from before; write %s. It is in: %s",
				ts[i].forms[0], n, ts[i].allowed, ts[i].use, listCounts(counts))})
		}
	}
	return cs
}

// listCounts prints counts by file, sorted.
func listCounts(counts map[string]int) string {
	var list []string
	for _, p := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, sprint("%s %d", p, counts[p]))
	}
	return strings.Join(list, ", ")
}

// lowered returns the lines of glossary.txt with allowances lowered to the counts.
func lowered(lines []string, ts []term, hits []map[string]int) []string {
	lines = slices.Clone(lines)
	for i, t := range ts {
		if n := sum(hits[i]); n < t.allowed {
			l := lines[t.line-1]
			lines[t.line-1] = l[:strings.LastIndex(l, "|")+1] + sprint(" %d", n)
		}
	}
	return lines
}

func TestGlossary(t *testing.T) {
	files, err := repo()
	if err != nil {
		t.Fatal(err)
	}
	ts, err := terms(glossary, files.lines(glossary))
	if err != nil {
		t.Fatal(err)
	}
	hits := glossaryHits(files, ts)
	for _, c := range risen(glossary, ts, hits) {
		t.Error(c)
	}
	for i, counts := range hits {
		if n := sum(counts); n < ts[i].allowed {
			t.Logf("%q occurs %d times and %d are allowed; -glossary.lower writes it down", ts[i].forms[0], n, ts[i].allowed)
		}
	}
	if *lowerGlossary {
		text := strings.Join(lowered(files.lines(glossary), ts, hits), "\n") + "\n"
		if err := os.WriteFile(root+"/"+glossary, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGlossaryComplains(t *testing.T) {
	const table = "# old | use | left\nwarden, wardens | supervisor | 1\nhandover, hand over | handoff | 0\nflight | batch | 0\nzoo | mutants | 0\n"
	files := treeOf(glossary, table,
		"a/0.go", "package warden\n",
		"a/a.go", "package warden\n\nfunc startWarden() error { theWardens := 1; return errors.New(\"no warden\") }\n",
		"b/b.go", "package b\n\ntype ZooKeeper struct{ inFlight, HandOver, lookUp int `json:\"a handover\"` }\n\nconst key = \"handover\"\n",
		"b/b_test.go", "package b\n\nconst text = \"a warden in a test\"\n",
		"internal/mutants/a.go", "package main\n\nconst anchor = \"go warden()\"\n")
	wantComplaints(t, checkGlossary, files,
		glossary+`:2: "warden" occurs 4 times, 1 are left from before; write supervisor. It is in: a/0.go 1, a/a.go 3`,
		glossary+`:3: "handover" occurs 1 times, 0 are left from before; write handoff. It is in: b/b.go 1`)
	for text, want := range map[string]string{
		"HTTPServer": "http server", "serveHTTP": "serve http", "gen2": "gen", "URLs": "urls", "a_line": "a line",
		"lookUp": "look up", "the Store's T1 claim": "the store s t claim", "newIDOf": "new id of", "": "",
	} {
		if got := strings.Join(words(text), " "); got != want {
			t.Errorf("words(%q): got %q, want %q", text, got, want)
		}
	}
	ts, err := terms(glossary, files.lines(glossary))
	if err != nil {
		t.Fatal(err)
	}
	hits := []map[string]int{{}, {"a.go": 2}, {}, {}}
	if got := lowered(files.lines(glossary), ts, hits)[1]; got != "warden, wardens | supervisor | 0" {
		t.Errorf("lowered: got %q", got)
	}
}
