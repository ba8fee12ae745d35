// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// translations are documents that say the same in another language.
var translations = [][2]string{{"README.md", "README_zh-CN.md"}}

// An outline is what two documents have in common that say the same in different
// languages, each item with its line.
type outline []struct {
	line int
	what string
}

var (
	headingMarks = regexp.MustCompile(`^(#{1,6})\s`)
	tableRow     = regexp.MustCompile(`^\s*\|`)
	htmlComment  = regexp.MustCompile(`^<!--.*-->$`)
	// linkOrCode are links and code in a text: neither is translated.
	linkOrCode = regexp.MustCompile("`[^`]+`|\\]\\(([^)\\s]+)\\)")
)

// outlineOf lists headings with their level, code blocks with their text, comments
// for tools, and rows of tables with the number of their cells and with the tests and
// files that they name.
func outlineOf(lines []string) outline {
	var o outline
	add := func(line int, what string) {
		o = append(o, struct {
			line int
			what string
		}{line, what})
	}
	blocks, prose := fences(lines)
	for i, l := range prose {
		if len(blocks) > 0 && blocks[0].line == i+1 {
			add(i+1, "code "+blocks[0].lang+"\n"+strings.Join(blocks[0].body, "\n"))
			blocks = blocks[1:]
		}
		switch m := headingMarks.FindStringSubmatch(l); {
		case m != nil:
			add(i+1, "heading "+m[1])
		case htmlComment.MatchString(strings.TrimSpace(l)):
			add(i+1, "comment "+strings.TrimSpace(l))
		case tableRow.MatchString(l):
			add(i+1, sprint("row of %d cells with %v", strings.Count(l, "|")-1, refs(l)))
		}
	}
	return o
}

// refs are the tests and the files that a line names, sorted: languages put words in
// different orders.
func refs(l string) []string {
	var found []string
	for _, m := range linkOrCode.FindAllStringSubmatch(l, -1) {
		switch {
		case strings.HasPrefix(m[1], "#"):
			found = append(found, "#") // headings are translated
		case m[1] != "" || namedTest.MatchString(m[0]):
			found = append(found, strings.Trim(m[0], "`]()"))
		}
	}
	slices.Sort(found)
	return found
}

// checkTranslations: a translation has the headings, the code, the tables and the
// links of the original, in the same order.
func checkTranslations(t tree) []complaint {
	var cs []complaint
	for _, pair := range translations {
		for _, p := range pair {
			if _, ok := t[p]; !ok {
				return []complaint{{p, 1, "the file is missing; " + pair[0] + " and " + pair[1] + " say the same"}}
			}
		}
		a, b := outlineOf(t.lines(pair[0])), outlineOf(t.lines(pair[1]))
		for i := range max(len(a), len(b)) {
			switch {
			case i >= len(b):
				cs = append(cs, complaint{pair[1], len(t.lines(pair[1])), sprint("it ends before line %d of %s: %s", a[i].line, pair[0], a[i].what)})
			case i >= len(a):
				cs = append(cs, complaint{pair[1], b[i].line, sprint("%s has no such thing after its end: %s", pair[0], b[i].what)})
			case a[i].what != b[i].what:
				cs = append(cs, complaint{pair[1], b[i].line, sprint("line %d of %s is %q, here is %q; make them the same", a[i].line, pair[0], a[i].what, b[i].what)})
			default:
				continue
			}
			break // everything after it is shifted
		}
		if x, y := allRefs(t, pair[0], pair[1]), allRefs(t, pair[1], pair[0]); len(cs) == 0 && !slices.Equal(x, y) {
			cs = append(cs, complaint{pair[1], 1, sprint("links and tests named are %v, in %s %v; make them the same", y, pair[0], x)})
		}
	}
	return cs
}

// allRefs are the tests and the files that a document names, but for the one it is a
// translation of.
func allRefs(t tree, p, other string) []string {
	_, prose := fences(t.lines(p))
	all := refs(strings.Join(prose, "\n"))
	return slices.DeleteFunc(all, func(r string) bool { return r == other })
}

func TestTranslations(t *testing.T) { checkRepo(t, checkTranslations) }

func TestTranslationsComplain(t *testing.T) {
	const good = "# A\n\n<!-- charts -->\n| a | `TestX` |\n| --- | --- |\n```go\nx\n```\n## B\n"
	zh := strings.NewReplacer("# A", "# 甲", "| a |", "| 甲 |", "## B", "## 乙").Replace(good)
	files := func(text string) tree { return treeOf("README.md", good, "README_zh-CN.md", text) }
	wantComplaints(t, checkTranslations, files(zh))
	for _, tt := range []struct{ old, new, want string }{
		{"x\n", "y\n", "README_zh-CN.md:6: line 6 of README.md is \"code go"},
		{"# 甲", "## 甲", "README_zh-CN.md:1: line 1 of README.md is \"heading #\""},
		{"`TestX`", "`TestY`", "README_zh-CN.md:4: line 4 of README.md is \"row of 2 cells with [TestX]\""},
		{"| 甲 |", "| 甲 | 乙 |", "README_zh-CN.md:4: line 4"},
		{"<!-- charts -->\n", "", "README_zh-CN.md:3: line 3 of README.md is \"comment"},
		{"## 乙\n", "## 乙\n\n[x](b.md)\n", "README_zh-CN.md:1: links and tests named are [TestX b.md], in README.md [TestX]"},
		{"## 乙\n", "", "README_zh-CN.md:8: it ends before line 9 of README.md: heading ##"},
		{"## 乙\n", "## 乙\n## 丙\n", "README_zh-CN.md:10: README.md has no such thing"},
	} {
		wantComplaints(t, checkTranslations, files(strings.Replace(zh, tt.old, tt.new, 1)), tt.want)
	}
	wantComplaints(t, checkTranslations, treeOf("README.md", good), "README_zh-CN.md:1: the file is missing")
}
