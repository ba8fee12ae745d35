// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// translations are documents that say the same in another language.
var translations = [][2]string{{"README.md", "README_zh-CN.md"}, {"docs/which-lock.md", "docs/zh-CN/which-lock.md"}}

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
func outlineOf(page string, lines []string) outline {
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
			add(i+1, sprint("row of %d cells with %v", strings.Count(l, "|")-1, refs(page, l)))
		}
	}
	return o
}

// refs are the tests and the files that a line of a page names, sorted: languages put words in
// different orders. Files are seen from the top, because a translation may be in another folder,
// and a translation counts as its original, whose anchors differ.
func refs(page, l string) []string {
	var found []string
	for _, m := range linkOrCode.FindAllStringSubmatch(l, -1) {
		switch {
		case strings.HasPrefix(m[1], "#"):
			found = append(found, "#") // headings are translated
		case strings.Contains(m[1], "://"):
			found = append(found, m[1])
		case m[1] != "":
			file, anchor, _ := strings.Cut(m[1], "#")
			file = path.Join(path.Dir(page), file)
			original, translated := originalOf(file)
			if anchor != "" && !translated {
				original += "#" + anchor
			}
			found = append(found, original)
		case namedTest.MatchString(m[0]):
			found = append(found, strings.Trim(m[0], "`"))
		}
	}
	slices.Sort(found)
	return found
}

// originalOf returns the document that a file says the same as, and whether there are two.
func originalOf(file string) (original string, translated bool) {
	for _, pair := range translations {
		if base := strings.TrimSuffix(pair[0], path.Ext(pair[0])); file == pair[1] || file == pair[0] {
			return pair[0], true
		} else if drawing := strings.TrimSuffix(pair[1], path.Ext(pair[1])) + ".svg"; file == drawing {
			return base + ".svg", true // a drawing with words in it
		}
	}
	return file, false
}

// checkTranslation: a translation has the headings, the code, the tables and the
// links of the original, in the same order.
func checkTranslation(t tree, original, translation string) []complaint {
	for _, p := range []string{original, translation} {
		if _, ok := t[p]; !ok {
			return []complaint{{p, 1, "the file is missing; " + original + " and " + translation + " say the same"}}
		}
	}
	a, b := outlineOf(original, t.lines(original)), outlineOf(translation, t.lines(translation))
	for i := range max(len(a), len(b)) {
		// Only the first difference is reported: everything after it is shifted.
		switch {
		case i >= len(b):
			return []complaint{{translation, len(t.lines(translation)), sprint("it ends before line %d of %s: %s", a[i].line, original, a[i].what)}}
		case i >= len(a):
			return []complaint{{translation, b[i].line, sprint("%s has no such thing after its end: %s", original, b[i].what)}}
		case a[i].what != b[i].what:
			return []complaint{{translation, b[i].line, sprint("line %d of %s is %q, here is %q; make them the same", a[i].line, original, a[i].what, b[i].what)}}
		}
	}
	if x, y := allRefs(original, t.lines(original)), allRefs(translation, t.lines(translation)); !slices.Equal(x, y) {
		return []complaint{{translation, 1, sprint("links and tests named are %v, in %s %v; make them the same", y, original, x)}}
	}
	return nil
}

// inChinese are pages in Chinese that are no translations, by the page that they stand for in a link.
var inChinese = map[string]string{
	"docs/zh-CN/tutorial.md": "docs/tutorial.md", "docs/zh-CN/scenarios.md": "docs/recipes.md", "docs/zh-CN/fencing.md": "docs/fencing.md",
	"docs/zh-CN/production.md": "docs/production.md", "docs/zh-CN/faq.md": "docs/troubleshooting.md",
}

// allRefs are the tests and the files that a document names, each once, in whatever language the
// files are.
func allRefs(page string, lines []string) []string {
	_, prose := fences(lines)
	all := refs(page, strings.Join(prose, "\n"))
	for i, r := range all {
		all[i] = cmp.Or(inChinese[r], r)
	}
	slices.Sort(all)
	// Pages in Chinese that stand for none, such as the one about the articles, are extra.
	return slices.DeleteFunc(slices.Compact(all), func(r string) bool { return strings.HasPrefix(r, "docs/zh-CN/") })
}

func TestTranslations(t *testing.T) {
	for _, pair := range translations {
		checkRepo(t, func(files tree) []complaint { return checkTranslation(files, pair[0], pair[1]) })
	}
}

func TestTranslationsComplain(t *testing.T) {
	const good = "# A\n\n<!-- charts -->\n| a | `TestX` |\n| --- | --- |\n```go\nx\n```\n## B\n"
	zh := strings.NewReplacer("# A", "# 甲", "| a |", "| 甲 |", "## B", "## 乙").Replace(good)
	files := func(text string) tree { return treeOf("README.md", good, "README_zh-CN.md", text) }
	check := func(t tree) []complaint { return checkTranslation(t, "README.md", "README_zh-CN.md") }
	wantComplaints(t, check, files(zh))
	wantComplaints(t, check, treeOf("README.md", good+"[zh](README_zh-CN.md)", "README_zh-CN.md", zh+"[en](README.md)"))
	wantComplaints(t, check, files(zh+"[只有中文](docs/zh-CN/a.md)\n"))
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
		wantComplaints(t, check, files(strings.Replace(zh, tt.old, tt.new, 1)), tt.want)
	}
	wantComplaints(t, check, treeOf("README.md", good), "README_zh-CN.md:1: the file is missing")
}

func TestTranslationsInAnotherFolder(t *testing.T) {
	got := refs("docs/zh-CN/which-lock.md", "[a](../redis.md#x) [b](which-lock.md#y) ![c](which-lock.svg) [d](https://x.y) `TestX` [e](#z)")
	if want := "[# TestX docs/redis.md#x docs/which-lock.md docs/which-lock.svg https://x.y]"; sprint("%v", got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
