// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"net/url"
	"path"
	"regexp"
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

func TestLinks(t *testing.T) { checkRepo(t, checkLinks) }

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
