// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// firstProgram returns the first Go code of a Markdown file, and the first text
// in a block of its own after it: what the program prints.
func firstProgram(lines []string) (program, output string) {
	blocks, _ := fences(lines)
	for _, b := range blocks {
		switch text := strings.Join(b.body, "\n") + "\n"; {
		case program == "" && b.lang == "go":
			program = text
		case program != "" && b.lang == "text":
			return program, text
		}
	}
	return program, ""
}

// TestReadmeProgramRuns pastes the first program of the README into a fresh
// module, as a reader does, and compares what it prints with what is said there.
func TestReadmeProgramRuns(t *testing.T) {
	files, err := repo()
	if err != nil {
		t.Fatal(err)
	}
	program, output := firstProgram(files.lines("README.md"))
	if program == "" || output == "" {
		t.Fatal("README.md has no Go program, or no text block after it with what it prints")
	}
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	module := files.modules()["."]
	for name, text := range map[string]string{
		"main.go": program,
		"go.mod":  "module x\n\ngo 1.25.0\n\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + top + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "run", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off")
	got, err := cmd.CombinedOutput()
	if err != nil || string(got) != output {
		t.Errorf("go run in a fresh module: %v\ngot  %swant %s", err, got, output)
	}
}

func TestFirstProgram(t *testing.T) {
	program, output := firstProgram(strings.Split("```sh\nls\n```\n```go\na\n```\n```go\nb\n```\n```text\nc\n```\n```text\nd\n```", "\n"))
	if program != "a\n" || output != "c\n" {
		t.Errorf("got %q and %q", program, output)
	}
}
