// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

func sprint(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// A fence is a block of code in a Markdown file.
type fence struct {
	line int // of the opening marks
	lang string
	body []string
}

// fences returns the code blocks between ``` or ~~~ marks, and the lines of
// the file with those blocks made empty, so that line numbers stay.
func fences(lines []string) ([]fence, []string) {
	var blocks []fence
	prose := make([]string, len(lines))
	var open *fence
	var mark string
	for i, l := range lines {
		trimmed := strings.TrimSpace(l)
		switch {
		case open == nil && (strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~")):
			mark = trimmed[:3]
			open = &fence{line: i + 1, lang: strings.TrimSpace(strings.TrimLeft(trimmed, mark[:1]))}
			if strings.Contains(open.lang, "`") { // a code span that fills a line
				open, prose[i] = nil, l
			}
		case open == nil:
			prose[i] = l
		case strings.HasPrefix(trimmed, mark) && strings.Trim(trimmed, mark[:1]) == "":
			blocks = append(blocks, *open)
			open = nil
		default:
			open.body = append(open.body, l)
		}
	}
	return blocks, prose
}

var codeSpan = regexp.MustCompile("``[^\n]*?``|`[^`\n]*`")

// withoutCode blanks the code spans of a line.
func withoutCode(l string) string { return codeSpan.ReplaceAllString(l, "") }

var (
	heading = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	htmlID  = regexp.MustCompile(`<a\s+(?:id|name)="([^"]+)"`)
	mdLink  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// anchors returns what a link can point to inside a Markdown file: headings,
// spelled as the hosting spells them, and explicit ids.
func anchors(lines []string) map[string]bool {
	_, prose := fences(lines)
	found := map[string]bool{}
	for _, l := range prose {
		for _, m := range htmlID.FindAllStringSubmatch(l, -1) {
			found[m[1]] = true
		}
		m := heading.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		base := slug(m[1])
		id := base
		for n := 1; found[id]; n++ {
			id = sprint("%s-%d", base, n)
		}
		found[id] = true
	}
	return found
}

// slug spells a heading as an anchor: lower case, spaces to hyphens, other
// punctuation dropped.
func slug(text string) string {
	text = mdLink.ReplaceAllString(text, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

func TestFences(t *testing.T) {
	blocks, prose := fences(strings.Split("a\n```go\nx\n```\nb\n~~~\ny\n~~~\n```z```", "\n"))
	if got, want := sprint("%v", blocks), "[{2 go [x]} {6  [y]}]"; got != want {
		t.Errorf("blocks: got %s, want %s", got, want)
	}
	if got, want := strings.Join(prose, "|"), "a||||b||||```z```"; got != want {
		t.Errorf("prose: got %s, want %s", got, want)
	}
}

func TestAnchors(t *testing.T) {
	got := anchors([]string{"# The `Do` call, [why](x.md)?", "## Again", "## Again", "```", "# no", "```", `<a id="k1"></a>`})
	for _, want := range []string{"the-do-call-why", "again", "again-1", "k1"} {
		if !got[want] {
			t.Errorf("%q is missing from %v", want, got)
		}
	}
	if len(got) != 4 {
		t.Errorf("got %v, want 4 anchors", got)
	}
}
