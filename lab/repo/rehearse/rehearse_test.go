// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
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
	must.OK(t, err)
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
	must.OK(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module m\n"), 0o600))
	text, err := zipModule(dir, "m@v1.0.0/", []string{"go.mod"})
	must.OK(t, err)
	archive, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	must.OK(t, err)
	if len(archive.File) != 1 || archive.File[0].Name != "m@v1.0.0/go.mod" {
		t.Errorf("got %v", archive.File)
	}
	if got := escape("github.com/Azure/x"); got != "github.com/!azure/x" {
		t.Errorf("escape: got %s", got)
	}
}

func TestQuickstartIsReadFromTheReadme(t *testing.T) {
	const program = "```go\npackage main\n```\n"
	const output = "```text\nholding\n```\n"
	const get = "```sh\ngo get y\n```\n"
	for _, tt := range []struct{ name, readme, commands, wrong string }{
		{"before the program", "x\n" + get + program + output, "go mod init x\ngo get y\ngo run .\n", ""},
		{"after another block", program + output + "```sh\n$ go get y \\\n  z\n```\n", "go mod init x\ngo get y    z\ngo run .\n", ""},
		{"no program", get + output, "", "no Go program"},
		{"in a sentence", program + "`go get y`\n" + output, "", "no command that gets"},
		{"no output", get + output + program, "", "does not show what"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q, err := readQuickstart(tt.readme)
			if tt.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wrong) {
					t.Errorf("got %v, want %s", err, tt.wrong)
				}
				return
			}
			if want := (quickstart{"package main\n", tt.commands, "holding\n"}); err != nil || q != want {
				t.Errorf("got %+v, %v, want %+v", q, err, want)
			}
		})
	}
}

func TestQuickstartMovesToAnotherServer(t *testing.T) {
	q := quickstart{program: `Open("redis://localhost:6379")`, output: "holding with token 512\n"}
	moved, err := q.on("127.0.0.1:1")
	if err != nil || moved.program != `Open("redis://127.0.0.1:1")` {
		t.Errorf("got %q, %v", moved.program, err)
	}
	if _, err := moved.on("127.0.0.1:2"); err == nil {
		t.Error("a program that connects elsewhere was accepted")
	}
	if !q.matches("holding with token 7\n") || q.matches("waiting with token 512\n") {
		t.Error("only the number of the token may differ")
	}
}

func TestBuildsThatDifferAreRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	a, b, c := write("a", "1"), write("b", "1"), write("c", "2")
	if err := sameBytes(a, b); err != nil {
		t.Error(err)
	}
	if sameBytes(a, c) == nil || sameBytes(a, filepath.Join(dir, "none")) == nil {
		t.Error("builds that differ, or are not there, were accepted")
	}
}

// TestTreeKeepsItsVersions: after the first release the tree requires versions that the
// rehearsal does not know, and they stay.
func TestTreeKeepsItsVersions(t *testing.T) {
	const root, store = "example.com/m", "example.com/m/store"
	tree := []byte("module example.com/m/cmd\n\nrequire " + root + " v0.4.0\n\nrequire (\n\t" + store + " v0.4.1 // indirect\n)\n")
	for path, want := range map[string]string{root: "v0.4.0", store: "v0.4.1", "example.com/other": ""} {
		if got := requiredVersion(tree, path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	got := sumsOf([]byte(root+" "+version+" h1:x=\nexample.com/z v1.0.0 h1:z=\n"), []byte(root+" v0.4.0 h1:m=\nexample.com/old v1.0.0 h1:o=\n"), []string{root})
	if want := root + " v0.4.0 h1:m=\nexample.com/z v1.0.0 h1:z=\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
