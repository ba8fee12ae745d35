// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRewrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.md")
	if err := os.WriteFile(path, []byte("a\n<!-- x -->\nold\n<!-- /x -->\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second time changes nothing
		if err := rewrite(path, "x", "new\n"); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := os.ReadFile(path)
	if want := "a\n<!-- x -->\n\nnew\n\n<!-- /x -->\nb\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := rewrite(path, "y", ""); err == nil {
		t.Error("a file without a place for it was taken")
	}
}
