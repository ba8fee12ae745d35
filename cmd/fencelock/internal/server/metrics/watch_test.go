// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

// TestParse: limits come first and the name last. What is mistyped is not taken for a name.
func TestParse(t *testing.T) {
	for text, want := range map[string]Watch{
		"deploy":                         {Name: "deploy"},
		"deploy/*":                       {Name: "deploy/", Prefix: true},
		"*":                              {Prefix: true},
		"held=10m waiting=1m deploy/*":   {Name: "deploy/", Prefix: true, Held: 10 * time.Minute, Waiting: time.Minute},
		" held=10m  a name with blanks ": {Name: "a name with blanks", Held: 10 * time.Minute},
		"every=24h by=4h nightly":        {Name: "nightly", Every: 24 * time.Hour, By: 4 * time.Hour},
		"a=b":                            {Name: "a=b"},
		"held=1s\ta":                     {Name: "a", Held: time.Second},
		"held=1s a=b":                    {Name: "a=b", Held: time.Second},
		"a b=c":                          {Name: "a b=c"},
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                       "give the name",
		"held=10m ":              "give the name",
		"held=10":                "a time such as",
		"hold=10m deploy":        "unknown limit hold",
		"held=1m Waiting=1m a":   "unknown limit Waiting",
		"a=b c":                  "unknown limit a",
		"deploy held=10m":        "before the name",
		"held=1m held=2m deploy": "twice",
		"held=1m a\x00b":         "control characters",
		"held=1m a\tb":           "control characters",
		"held=1m \xff":           "UTF-8",
		"held=x deploy":          "a time such as",
		"held=-1s deploy":        "a time such as",
		"every=24h jobs/*":       "not for a prefix",
		"by=4h a":                "needs every",
		"every=1h by=2h a":       "shorter than every",
		"every=150500ms a":       "whole seconds",
		"every=1m a":             "2m0s or longer",
		strings.Repeat("x", 600): "at most 512 bytes",
	} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
}

// TestWatchesAreBounded: the number of series is that of the watches.
func TestWatchesAreBounded(t *testing.T) {
	var lines []string
	for i := range MaxWatches + 1 {
		lines = append(lines, fmt.Sprint("lock-", i))
	}
	if _, err := ParseAll(lines); err == nil || !strings.Contains(err.Error(), "prefix") {
		t.Errorf("got %v", err)
	}
	if all, err := ParseAll(lines[1:]); err != nil || len(all) != MaxWatches {
		t.Errorf("got %d, %v", len(all), err)
	}
	if _, err := ParseAll([]string{"a", "held=1m a"}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("got %v", err)
	}
}

func TestLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "watches")
	must.OK(t, os.WriteFile(path, []byte("# for the night\n\n  held=1m a  \nb"), 0o600))
	if got, err := Lines(path); err != nil || !slices.Equal(got, []string{"held=1m a", "b"}) {
		t.Errorf("got %q, %v", got, err)
	}
}
