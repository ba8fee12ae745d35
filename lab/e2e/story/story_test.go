// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// TestMain lets the test binary be a worker, as the program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestStoryIsAsDocumented plays it and compares it with what the tutorial tells, line by
// line; only times and tokens differ from run to run.
func TestStoryIsAsDocumented(t *testing.T) {
	var out bytes.Buffer
	err := story(t.Context(), io.MultiWriter(&out, t.Output()))
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	must.OK(t, err)
	want, err := os.ReadFile("testdata/story.txt")
	must.OK(t, err)
	got := timeless(out.String())
	for _, line := range []string{"is stopped (SIGSTOP)", "was refused: fence: stale token", "150, and should be 160", "160, and should be 160"} {
		if !strings.Contains(got, line) {
			t.Errorf("nothing is said about %q", line)
		}
	}
	if want := timeless(string(want)); got != want {
		t.Errorf("testdata/story.txt has another output; copy the output again.\ngot:\n%s\nwant:\n%s", got, want)
	}
}

var (
	times  = regexp.MustCompile(`(?m)^ *\d+\.\d\d s`)
	tokens = regexp.MustCompile(`\d{9,}`)
)

// timeless replaces times, and tokens by their numbers, so that the same token is
// still the same. Empty lines do not count.
func timeless(text string) string {
	seen := map[string]string{}
	text = tokens.ReplaceAllStringFunc(times.ReplaceAllString(text, "time"), func(token string) string {
		if seen[token] == "" {
			seen[token] = fmt.Sprint("token", len(seen)+1)
		}
		return seen[token]
	})
	return regexp.MustCompile(`\n{2,}`).ReplaceAllString(strings.TrimSpace(text), "\n")
}

func TestTimelessKeepsTokensApart(t *testing.T) {
	if timeless("   1.00 s  A 123456789 987654321 123456789") != timeless("  99.99 s  A 111111111 222222222 111111111\n\n") {
		t.Error("times and tokens count")
	}
	if timeless("A 123456789 123456789") == timeless("A 123456789 987654321") {
		t.Error("two tokens are taken for one")
	}
}
