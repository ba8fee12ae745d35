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

// firstProgram returns the first Go code of a Markdown file, the first text block after
// it, which is what the program prints, and the second Go code: the store that replaces
// the one of the program where there is no server.
func firstProgram(lines []string) (program, output, store string) {
	blocks, _ := fences(lines)
	for _, b := range blocks {
		switch text := strings.Join(b.body, "\n") + "\n"; {
		case program == "" && b.lang == "go":
			program = text
		case program != "" && output == "" && b.lang == "text":
			output = text
		case program != "" && store == "" && b.lang == "go":
			store = text
		}
	}
	return program, output, store
}

var (
	// openStore is the part of the first program that the store without a server replaces.
	openStore = regexp.MustCompile(`(?s)\tstore, err := redisstore\.Open\(.*?\n\t}\n`)
	// digits are a token: it differs from store to store.
	digits = regexp.MustCompile(`[0-9]{3,}`)
)

// inMemory is the program with another store, as the README says.
func inMemory(program, store string) string {
	program = openStore.ReplaceAllLiteralString(program, store)
	return strings.ReplaceAll(program, "store/redisstore", "store/memstore")
}

// TestReadmeProgramRuns pastes the first program of the README into a fresh module, with
// the store that needs no server, as a reader does, and compares what it prints with what
// the README shows. The module of redisstore runs the program with Redis.
func TestReadmeProgramRuns(t *testing.T) {
	files, err := repo()
	must.OK(t, err)
	program, output, store := firstProgram(files.lines("README.md"))
	if !openStore.MatchString(program) || output == "" || store == "" {
		t.Fatal("README.md has no Go program with redisstore.Open, no text block after it with what it prints, or no store without a server")
	}
	top, err := filepath.Abs(root)
	must.OK(t, err)
	dir := t.TempDir()
	module := files.modules()["."]
	for name, text := range map[string]string{
		"main.go": inMemory(program, store),
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
	program, output, store := firstProgram(strings.Split("```sh\nls\n```\n```go\na\n```\n```text\nc\n```\n```go\nb\n```\n```text\nd\n```\n```go\ne\n```", "\n"))
	if program != "a\n" || output != "c\n" || store != "b\n" {
		t.Errorf("got %q, %q and %q", program, output, store)
	}
	const redis = "\t\"x/store/redisstore\"\n\tstore, err := redisstore.Open(ctx)\n\tif err != nil {\n\t\tf()\n\t}\n\tg()\n"
	if got, want := inMemory(redis, "store := 1\n"), "\t\"x/store/memstore\"\nstore := 1\n\tg()\n"; got != want {
		t.Errorf("inMemory: got %q, want %q", got, want)
	}
}
