// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"maps"
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

const ours = "example.com/m"

// TestVersionIsTheOneThatAllRequire: modules of two versions would be tested together by nobody.
func TestVersionIsTheOneThatAllRequire(t *testing.T) {
	gomod := []byte("module example.com/m/cmd\n\nrequire example.com/m v0.4.0\n\nrequire (\n\texample.com/m/s v0.4.0 // indirect\n\texample.com/mm v1.0.0\n)\n")
	got := requires(gomod, ours)
	if want := map[string]string{"example.com/m": "v0.4.0", "example.com/m/s": "v0.4.0"}; !maps.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	if v, err := oneVersion(got); v != "v0.4.0" || err != nil {
		t.Errorf("got %q, %v", v, err)
	}
	got["example.com/m/s"] = "v0.3.0"
	if _, err := oneVersion(got); err == nil {
		t.Error("two versions were accepted")
	}
	if _, err := oneVersion(nil); err == nil {
		t.Error("no version was accepted")
	}
}

func TestRaiseWritesEveryRequire(t *testing.T) {
	const after = "module c\n\nrequire (\n\texample.com/m v0.5.0\n\texample.com/m/s v0.5.0\n\texample.com/mm v0.4.0\n)\n"
	const indirect = "\nrequire (\n\texample.com/z v1.0.0 // indirect\n)\n"
	for _, tt := range []struct{ name, before, after string }{
		{"a block", "module c\n\nrequire (\n\texample.com/m v0.4.0\n\texample.com/mm v0.4.0\n)\n" + indirect, after + indirect},
		{"one alone", "module c\n\nrequire example.com/mm v0.4.0\n" + indirect, after + indirect},
		{"none", "module c\n", "module c\n\nrequire (\n\texample.com/m v0.5.0\n\texample.com/m/s v0.5.0\n)\n"},
		{"all", after, after},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := requireAt(tt.before, []string{"example.com/m", "example.com/m/s"}, ours, "v0.5.0"); got != tt.after {
				t.Errorf("got %s, want %s", got, tt.after)
			}
		})
	}
}

// TestWorkspaceStandsForItsRelease: only for modules that it uses and others need, and once.
func TestWorkspaceStandsForItsRelease(t *testing.T) {
	dirs := map[string]string{"example.com/m": ".", "example.com/m/s": "s", "example.com/m/s-t": "s-t"}
	needed := []string{"example.com/m", "example.com/m/s", "example.com/m/s-t"}
	for _, tt := range []struct{ name, dir, before, replaced string }{
		{"top", ".", "go 1.26.0\n\nuse (\n\t.\n\t./s\n\t./cmd\n)\n", "\texample.com/m v0.5.0 => .\n\texample.com/m/s v0.5.0 => ./s\n"},
		{"apart", "lab/x", "go 1.26.0\n\nuse (\n\t.\n\t../..\n\t../../s-t\n)\n", "\texample.com/m v0.5.0 => ../..\n\texample.com/m/s-t v0.5.0 => ../../s-t\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.before + beside + "replace (\n" + tt.replaced + ")\n"
			first := replaceAt(tt.before, tt.dir, needed, dirs, "v0.4.0")
			if got := replaceAt(first, tt.dir, needed, dirs, "v0.5.0"); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestTreeKeepsItsOwnSums: the lines of a release stay in the tree, while the files change.
func TestTreeKeepsItsOwnSums(t *testing.T) {
	rehearsed := "example.com/m v0.4.0 h1:x=\nexample.com/m/s v0.4.0 h1:y=\nexample.com/mm v1.0.0 h1:mm=\nexample.com/z v1.0.0 h1:z=\n"
	tree := "example.com/m v0.4.0 h1:m=\nexample.com/old v1.0.0 h1:o=\n"
	got := string(sumsOf([]byte(rehearsed), []byte(tree), ours))
	if want := "example.com/m v0.4.0 h1:m=\nexample.com/mm v1.0.0 h1:mm=\nexample.com/z v1.0.0 h1:z=\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTagsHaveTheFolder(t *testing.T) {
	if got := tagOf(".", "v1.0.0") + " " + tagOf("store/s", "v1.0.0"); got != "v1.0.0 store/s/v1.0.0" {
		t.Errorf("got %s", got)
	}
}

// TestGraphsOfAllUsersAreBounded: a graph that nobody compares grows.
func TestGraphsOfAllUsersAreBounded(t *testing.T) {
	for dir := range clients {
		if graphs[dir] == 0 {
			t.Errorf("graphs has no bound for %s", dir)
		}
	}
}
