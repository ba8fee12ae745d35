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
