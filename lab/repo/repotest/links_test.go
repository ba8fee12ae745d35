// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	inlineLink = regexp.MustCompile(`\]\(<?([^)>\s]+)>?(?:\s+"[^"]*")?\)`)
	linkTarget = regexp.MustCompile(`^\s{0,3}\[[^\]]+\]:\s+<?([^>\s]+)`)
)

// checkLinks: every relative link in a Markdown file leads to a file or folder
// of the repository, and its anchor to a heading.
func checkLinks(t tree) []complaint {
	var cs []complaint
	for _, p := range t.paths(".md") {
		if inDir(p, "testdata") {
			continue
		}
		_, prose := fences(t.lines(p))
		for i, l := range prose {
			l = withoutCode(l)
			for _, m := range append(inlineLink.FindAllStringSubmatch(l, -1), linkTarget.FindAllStringSubmatch(l, -1)...) {
				if what := badLink(t, p, m[1]); what != "" {
					cs = append(cs, complaint{p, i + 1, "link to " + m[1] + ": " + what})
				}
			}
		}
	}
	return cs
}

// badLink says what is wrong with a link in file from; "" is fine.
func badLink(t tree, from, link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return "it does not parse; " + err.Error()
	}
	if u.Scheme != "" || u.Host != "" {
		return "" // elsewhere; a test needs no network
	}
	to := from
	if u.Path != "" {
		to = path.Join(path.Dir(from), u.Path)
	}
	_, isFile := t[to]
	switch {
	case strings.HasPrefix(u.Path, "/"):
		return "make it relative to this file"
	case !isFile && !t.hasDir(to):
		return "there is no " + to + "; correct the path or write the file"
	case u.Fragment != "" && strings.HasSuffix(to, ".md") && !anchors(t.lines(to))[u.Fragment]:
		return "no heading in " + to + " makes the anchor #" + u.Fragment
	}
	return ""
}

// checkIndex: every document directly in docs, and the README of every folder there,
// can be reached from docs/README.md.
func checkIndex(t tree) []complaint {
	const index = "docs/README.md"
	var linked []string
	for _, m := range inlineLink.FindAllStringSubmatch(string(t[index]), -1) {
		linked = append(linked, path.Join("docs", m[1]))
	}
	var cs []complaint
	for _, p := range t.paths(".md") {
		inFolder := strings.Count(p, "/") == 2 && path.Base(p) == "README.md"
		if p == index || !strings.HasPrefix(p, "docs/") || strings.Count(p, "/") > 1 && !inFolder {
			continue
		}
		if !slices.Contains(linked, p) {
			cs = append(cs, complaint{p, 1, "no page links to it: add it to " + index})
		}
	}
	return cs
}

func TestLinks(t *testing.T) { checkRepo(t, checkLinks) }
func TestIndex(t *testing.T) { checkRepo(t, checkIndex) }

func TestIndexComplains(t *testing.T) {
	wantComplaints(t, checkIndex, treeOf(
		"docs/README.md", "[a](a.md) [c](c/README.md) [top](../README.md)\n",
		"docs/a.md", "# A\n", "docs/b.md", "# B\n", "docs/c/README.md", "# C\n", "docs/c/d.md", "# D\n", "docs/e/README.md", "# E\n",
		"README.md", "# R\n", "lab/torture/README.md", "# T\n",
	),
		"docs/b.md:1: no page links to it",
		"docs/e/README.md:1: no page links to it",
	)
}

func TestLinksComplain(t *testing.T) {
	wantComplaints(t, checkLinks, treeOf(
		"docs/a.md", strings.Join([]string{
			"# A",
			"[ok](b.md) [ok](../README.md#the-top) [ok](#a) [ok](https://example.com/x) [ok](../docs)",
			"`[code](none.md)`",
			"```\n[code](none.md)\n```",
			"[bad](none.md) and [bad](b.md#none)",
			"[bad](/docs/b.md)",
			"",
			"[ref]: none2.md",
		}, "\n"),
		"docs/b.md", "# B\n",
		"README.md", "# The top\n",
	),
		"docs/a.md:7: link to none.md: there is no docs/none.md",
		"docs/a.md:7: link to b.md#none: no heading in docs/b.md",
		"docs/a.md:8: link to /docs/b.md: make it relative",
		"docs/a.md:10: link to none2.md: there is no docs/none2.md",
	)
}
