// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// without returns a program without the lines in which the two may differ: those up
// to the package clause, and those that contain one of the words.
func without(t *testing.T, path string, words ...string) string {
	text, err := os.ReadFile(path)
	must.OK(t, err)
	_, body, ok := strings.Cut(string(text), "\npackage main\n")
	if !ok {
		t.Fatalf("%s has no package clause", path)
	}
	var kept []string
	for line := range strings.Lines(body) {
		if !regexp.MustCompile(strings.Join(words, "|")).MatchString(line) {
			kept = append(kept, strings.TrimSpace(line))
		}
	}
	return strings.Join(kept, "\n")
}

// TestOnlyTheStoreDiffers: apart from the line that makes the store, the check of its
// error and the end of its connection, this program is the same as the one without a server.
func TestOnlyTheStoreDiffers(t *testing.T) {
	memory := without(t, "../../../../lab/repo/hello/main.go", "memstore")
	redis := without(t, "main.go", "redisstore")
	const check = "if err != nil {\nreturn err\n}\ndefer store.Close()\n"
	if got := strings.Replace(redis, check, "", 1); got != memory {
		t.Errorf("without what concerns the store the programs are\n%s\nand\n%s", got, memory)
	}
}

// TestRun runs the program on a server that is not at the usual port.
func TestRun(t *testing.T) {
	server := redistest.Redis.Start(t)
	text, err := os.ReadFile("main.go")
	must.OK(t, err)
	program := strings.Replace(string(text), "localhost:6379", server.Addr, 1)
	if program == string(text) {
		t.Fatal("main.go does not say localhost:6379")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	must.OK(t, os.WriteFile(file, []byte(program), 0o600))
	out, err := exec.Command("go", "run", file).CombinedOutput()
	if err != nil || !regexp.MustCompile(`^holding orders/42 with token [0-9]+\n$`).Match(out) {
		t.Errorf("go run: %v\n%s", err, out)
	}
}
