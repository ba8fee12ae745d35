// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/xml"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
)

var record = flag.Bool("record", false, "TestRecordingOfWhy writes docs/why.svg instead of comparing it")

const recording = "../../docs/why.svg"

// varies is what differs from run to run: times, tokens and process ids.
var varies = regexp.MustCompile(`[0-9][0-9.]*(µs|ms|s)?`)

// TestRecordingOfWhy: the picture of the command in a terminal is what a real run against
// a real Redis prints, but for numbers.
func TestRecordingOfWhy(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, &fencelock.Options{Owner: "watcher"})
	begin(t, s.url(), "run", "nightly-report", "--owner", "cron@web-3", "--reason", "nightly import", "--", "sleep", "60")
	awaitStatus(t, c, func(st fencelock.Status) bool { return len(st.Holders) == 1 })
	for i, owner := range []string{"cron@web-1", "cron@web-2"} {
		begin(t, s.url(), "run", "nightly-report", "--owner", owner, "--", "true")
		awaitStatus(t, c, func(st fencelock.Status) bool { return st.Waiting == i+1 })
	}
	p, _, shown := inTerminal(t, s.url(), "why")
	p.want(0)
	until(t, "the terminal shows the answer", func() bool {
		return strings.Contains(shown.String(), "cron@web-2") && strings.HasSuffix(shown.String(), "\n")
	})
	text := "$ fencelock why\n" + strings.ReplaceAll(shown.String(), "\r", "")
	svg := terminalPicture("fencelock why in a terminal", strings.Split(strings.TrimSpace(text), "\n"))
	if *record {
		must.OK(t, os.WriteFile(recording, []byte(svg), 0o644))
		return
	}
	old, err := os.ReadFile(recording)
	must.OK(t, err)
	if varies.ReplaceAllString(string(old), "N") != varies.ReplaceAllString(svg, "N") {
		t.Errorf("%s is not what the command prints; run go test ./cmd/fencelock -run TestRecordingOfWhy -record\ngot\n%s", recording, text)
	}
}

// awaitStatus waits until the status of the lock is as wanted.
func awaitStatus(t *testing.T, c *fencelock.Client, ok func(fencelock.Status) bool) {
	t.Helper()
	until(t, "the lock has its holder and waiters", func() bool {
		st, err := c.Inspect(t.Context(), "nightly-report")
		return err == nil && ok(st)
	})
}

// terminalPicture draws lines of text as a terminal does, for light and dark pages.
func terminalPicture(title string, lines []string) string {
	var b strings.Builder
	height := 56 + 22*len(lines)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 %d" width="860" height="%d" role="img" aria-labelledby="title desc">
<title id="title">%s</title>
<desc id="desc">%s</desc>
<style>
text { font: 14px ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono", "Liberation Mono", monospace; fill: #1f2328; white-space: pre; }
.window { fill: #f6f8fa; stroke: #d0d7de; }
.dot { fill: #b5bdc6; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.window { fill: #0d1117; stroke: #30363d; }
.dot { fill: #444c56; }
}
</style>
<rect x="0.5" y="0.5" width="859" height="%d" rx="8" class="window"/>
<circle cx="20" cy="20" r="5" class="dot"/><circle cx="38" cy="20" r="5" class="dot"/><circle cx="56" cy="20" r="5" class="dot"/>
`, height, height, title, escaped(strings.Join(lines, " ")), height-1)
	for i, l := range lines {
		fmt.Fprintf(&b, "<text x=\"20\" y=\"%d\" xml:space=\"preserve\">%s</text>\n", 56+22*i, escaped(l))
	}
	return b.String() + "</svg>\n"
}

// escaped is a text inside an element.
func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text))
	return b.String()
}
