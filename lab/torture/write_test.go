// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/lab/torture/internal/peer"
)

func TestRewrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.md")
	must.OK(t, os.WriteFile(path, []byte("a\n<!-- x -->\nold\n<!-- /x -->\nb\n"), 0o600))
	for range 2 { // a second time changes nothing
		must.OK(t, rewrite(path, "x", "new\n"))
	}
	got, _ := os.ReadFile(path)
	if want := "a\n<!-- x -->\n\nnew\n\n<!-- /x -->\nb\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := rewrite(path, "y", ""); err == nil {
		t.Error("a file without a place for it was taken")
	}
}

// TestPeersTable: whose settings count is said below the counts.
func TestPeersTable(t *testing.T) {
	text := table([]*score{{lock: peer.Prefix + "redsync", deployment: "redis", cells: 2, overlaps: 1, time: time.Hour}})
	for _, want := range []string{"| redsync | redis | 2 | 60.0 | 0 | 1 (1) |", "no token", "- redsync: ", "- rueidislock: "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the table:\n%s", want, text)
		}
	}
}
