// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestFilesBelongToTheInnermostModule(t *testing.T) {
	files := []string{"a.go", "go.mod", "s/go.mod", "s/internal/x/y.go", "s/s.go", "x/testdata/go.mod", "x/x.go"}
	dirs := moduleDirs(files)
	if got, want := fmt.Sprint(dirs), "[. s]"; got != want {
		t.Fatalf("modules: got %s, want %s", got, want)
	}
	for dir, want := range map[string]string{
		".": "[a.go go.mod x/testdata/go.mod x/x.go]",
		"s": "[s/go.mod s/internal/x/y.go s/s.go]",
	} {
		if got := fmt.Sprint(filesOf(dir, dirs, files)); got != want {
			t.Errorf("files of %s: got %s, want %s", dir, got, want)
		}
	}
}

func TestOrderPutsNeedsFirst(t *testing.T) {
	mods := []*module{
		{path: "m/cmd", needs: []string{"m", "m/s"}},
		{path: "m/s", needs: []string{"m"}},
		{path: "m"},
	}
	sorted, err := order(mods)
	if err != nil {
		t.Fatal(err)
	}
	if got := sorted[0].path + " " + sorted[1].path + " " + sorted[2].path; got != "m m/s m/cmd" {
		t.Errorf("got %s", got)
	}
	mods[2].needs = []string{"m/cmd"}
	if _, err := order(mods); err == nil {
		t.Error("a circle was accepted")
	}
}

func TestProviderIsTheLongestPrefix(t *testing.T) {
	mods := []*module{{path: "e.com/m"}, {path: "e.com/m/s"}}
	for imp, want := range map[string]string{
		"e.com/m": "e.com/m", "e.com/m/driver": "e.com/m", "e.com/m/s/x": "e.com/m/s", "e.com/mm": "", "fmt": "",
	} {
		if got := provider(imp, mods); got != want {
			t.Errorf("%s: got %q, want %q", imp, got, want)
		}
	}
}

func TestZipModule(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := zipModule(dir, "m@v1.0.0/", []string{"go.mod"})
	if err != nil {
		t.Fatal(err)
	}
	archive, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.File) != 1 || archive.File[0].Name != "m@v1.0.0/go.mod" {
		t.Errorf("got %v", archive.File)
	}
	if got := escape("github.com/Azure/x"); got != "github.com/!azure/x" {
		t.Errorf("escape: got %s", got)
	}
}
