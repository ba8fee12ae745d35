// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

var (
	// blockMark is the line before a block that is neither Go nor plain text:
	//
	//	<!-- checked: cmd/fencelock TestJobsPage -->   this test runs the block, or compares it with what is true
	//	<!-- checked: make release-rehearsal -->       this target does
	//	<!-- not run: it installs from the internet --> nothing does, and why
	blockMark = regexp.MustCompile(`^<!--\s*(checked|not run):\s*(.+?)\s*-->$`)
	// shellLine begins a line that a reader would type.
	shellLine = regexp.MustCompile(`^\s*(\$ |(export \w+=|sudo |cd |fencelock |go (run|test|get|install|build|vet) |make [a-z]|curl |docker |redis-cli |kubectl |etcdctl |psql |git ))`)
)

// checkCommandBlocks: a command or a program in a document is checked by a test that knows the page, or says why it is
// not. Go code is compiled, see checkCodeBlocks. What programs print, addresses and formulas are called text; a line that
// is typed, called text to escape, is found by its first word.
func checkCommandBlocks(t tree) (cs []complaint) {
	tests := testFiles(t)
	for _, p := range writtenDocs(t) {
		lines := t.lines(p)
		blocks, _ := fences(lines)
		for _, b := range blocks {
			if kind, _ := markOf(lines, b); kind == "" && needsMark(b) {
				cs = append(cs, complaint{p, b.line, "nothing says who runs this; put <!-- checked: dir TestName --> or <!-- not run: why --> before it, or call it text if it is neither a command nor a program"})
				continue
			}
			if what := badMark(t, p, lines, b, tests); what != "" {
				cs = append(cs, complaint{p, b.line, what})
			}
		}
	}
	return cs
}

// needsMark reports whether a block is a command or a program that the compiler does not see.
func needsMark(b fence) bool {
	switch b.lang {
	case "go":
		return false
	case "text":
		for _, l := range b.body {
			if shellLine.MatchString(l) {
				return true
			}
		}
		return false
	}
	return true
}

// markOf returns what the line before a block says about it: checked or not run, and the rest.
func markOf(lines []string, b fence) (kind, rest string) {
	before := lineBefore(lines, b.line)
	if fromComment.MatchString(before) {
		return "from", "" // checkCopiedCode compares it
	}
	if m := blockMark.FindStringSubmatch(before); m != nil {
		return m[1], m[2]
	}
	return "", ""
}

// badMark says what is wrong with the mark of a block; "" is fine.
func badMark(t tree, page string, lines []string, b fence, tests map[string]string) string {
	kind, rest := markOf(lines, b)
	switch words := strings.Fields(rest); {
	case kind == "not run" && len(words) < 2:
		return "say in a few words why nothing runs this"
	case kind != "checked":
		return ""
	case len(words) != 2:
		return "name one test, as in <!-- checked: cmd/fencelock TestJobsPage -->, or a target of make"
	case words[0] == "make":
		if target := "\n" + words[1] + ":"; !strings.Contains("\n"+string(t["Makefile"])+"\n"+string(t["lab/lab.mk"]), target) {
			return "there is no make " + words[1]
		}
		return ""
	default:
		source, ok := tests[words[0]+" "+words[1]]
		if !ok {
			return words[0] + " has no " + words[1]
		}
		// A test that does not name the page would not notice that the page has changed.
		if text := string(t[source]); !strings.Contains(text, path.Base(page)) && !strings.Contains(text, `"*.md"`) {
			return source + " does not read " + path.Base(page) + ", so it does not check this"
		}
		return ""
	}
}

// testFiles returns the file of each test, by "folder name".
func testFiles(t tree) map[string]string {
	files := map[string]string{}
	for p, text := range t {
		if !strings.HasSuffix(p, "_test.go") {
			continue
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			files[path.Dir(p)+" "+m[1]] = p
		}
	}
	return files
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// TestCommandBlocks: see checkCommandBlocks.
func TestCommandBlocks(t *testing.T) {
	checkRepo(t, checkCommandBlocks)
	files, err := repo()
	must.OK(t, err)
	n := map[string]int{}
	for _, p := range writtenDocs(files) {
		blocks, _ := fences(files.lines(p))
		for _, b := range blocks {
			kind, _ := markOf(files.lines(p), b)
			n[kind]++
		}
	}
	t.Logf("counted: %d commands and programs that tests check, %d that nothing runs, with the reason", n["checked"], n["not run"])
}

func TestCommandBlocksComplain(t *testing.T) {
	wantComplaints(t, checkCommandBlocks, treeOf(
		"docs/a.md", strings.Join([]string{
			"```sh\nls\n```",                                       // line 1
			"```\nls\n```",                                         // line 4
			"```text\nholding orders/42\n```",                      // line 7
			"```text\n$ fencelock ls\n```",                         // line 10
			"<!-- not run: it needs a cluster -->\n```sh\nls\n```", // line 14
			"<!-- not run: no -->\n```sh\nls\n```",                 // line 18
			"<!-- checked: s TestA -->\n\n```sh\nls\n```",          // line 23
			"<!-- checked: s TestB -->\n```sh\nls\n```",            // line 27
			"<!-- checked: s TestOther -->\n```sh\nls\n```",        // line 31
			"<!-- checked: make lint -->\n```sh\nls\n```",          // line 35
			"<!-- checked: make none -->\n```sh\nls\n```",          // line 39
			"<!-- from: ../a.yml -->\n```yaml\na: b\n```",          // line 43
			"```go\nx()\n```",                                      // checkCodeBlocks
		}, "\n"),
		"s/a_test.go", "package s\n\nfunc TestA(t *testing.T) { read(\"../docs/a.md\") }\n",
		"s/b_test.go", "package s\n\nfunc TestOther(t *testing.T) {}\n",
		"Makefile", "lint:\n\ttrue\n", "a.yml", "a: b\n",
	),
		"docs/a.md:1: nothing says who runs this",
		"docs/a.md:4: nothing says who runs this",
		"docs/a.md:10: nothing says who runs this",
		"docs/a.md:18: say in a few words",
		"docs/a.md:27: s has no TestB",
		"docs/a.md:31: s/b_test.go does not read a.md",
		"docs/a.md:39: there is no make none",
	)
}
