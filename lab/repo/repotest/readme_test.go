// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// firstProgram returns the first Go code of a Markdown file, and the first text block after
// it, which is what the program prints.
func firstProgram(lines []string) (program, output string) {
	blocks, _ := fences(lines)
	for _, b := range blocks {
		switch text := strings.Join(b.body, "\n") + "\n"; {
		case program == "" && b.lang == "go":
			program = text
		case program != "" && output == "" && b.lang == "text":
			output = text
		}
	}
	return program, output
}

var (
	// openStore is the part of the first program that the store without a server replaces.
	openStore = regexp.MustCompile(`(?s)\tstore, err := redisstore\.Open\(.*?\n\t}\n\tdefer store\.Close\(\)\n`)
	// digits are a token: it differs from store to store.
	digits = regexp.MustCompile(`[0-9]{3,}`)
)

// inMemory is the program with a store that needs no server.
func inMemory(program string) string {
	program = openStore.ReplaceAllLiteralString(program, "\tstore := memstore.New(nil)\n")
	return strings.ReplaceAll(program, "store/redisstore", "store/memstore")
}

// TestReadmeProgramRuns pastes the first program of the README into a fresh module, as a reader
// does, with a store that needs no server, and compares what it prints with what
// the README shows. The module of redisstore runs the program with Redis.
func TestReadmeProgramRuns(t *testing.T) {
	files, err := repo()
	must.OK(t, err)
	program, output := firstProgram(files.lines("README.md"))
	if !openStore.MatchString(program) || output == "" {
		t.Fatal("README.md has no Go program with redisstore.Open, or no text block after it with what it prints")
	}
	top, err := filepath.Abs(root)
	must.OK(t, err)
	dir := t.TempDir()
	module := files.modules()["."]
	for name, text := range map[string]string{
		"main.go": inMemory(program),
		"go.mod":  "module x\n\ngo 1.25.0\n\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + top + "\n",
	} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	cmd := exec.Command("go", "run", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off")
	got, err := cmd.CombinedOutput()
	if err != nil || digits.ReplaceAllString(string(got), "N") != digits.ReplaceAllString(output, "N") {
		t.Errorf("go run in a fresh module: %v\ngot  %swant %s", err, got, output)
	}
}

func TestFirstProgram(t *testing.T) {
	program, output := firstProgram(strings.Split("```sh\nls\n```\n```go\na\n```\n```text\nc\n```\n```go\nb\n```\n```text\nd\n```", "\n"))
	if program != "a\n" || output != "c\n" {
		t.Errorf("got %q and %q", program, output)
	}
	const redis = "\t\"x/store/redisstore\"\n\tstore, err := redisstore.Open(ctx)\n\tif err != nil {\n\t\tf()\n\t}\n\tdefer store.Close()\n\tg()\n"
	if got, want := inMemory(redis), "\t\"x/store/memstore\"\n\tstore := memstore.New(nil)\n\tg()\n"; got != want {
		t.Errorf("inMemory: got %q, want %q", got, want)
	}
}
