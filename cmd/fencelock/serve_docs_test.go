// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCurlOfTheDocs: the calls that docs/serve.md shows take a lock and give it back.
func TestCurlOfTheDocs(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"curl", "jq", "bash"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is missing; install it and run: go test ./cmd/fencelock -run TestCurlOfTheDocs", tool)
		}
	}
	text, err := os.ReadFile("../../docs/serve.md")
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(text), "\npost() {")
	script, _, ok := strings.Cut(script, "\n```")
	if !ok {
		t.Fatal("docs/serve.md has no calls")
	}
	s := startRedis(t)
	users := filepath.Join(t.TempDir(), "users.json")
	made := fencelockCLI(t, s.url(), "serve", "token", "worker", "--may", "take", "--prefix", "orders/", "--users", users).want(0)
	_, url := serving(t, s, "--users", users)
	bash := exec.Command("bash", "-euc", "post() {"+strings.ReplaceAll(script, "http://localhost:7420", url))
	bash.Env = append(os.Environ(), "TOKEN="+strings.TrimSpace(made.out.String()))
	run := beginProgram(t, bash).want(0)
	contains(t, run.out.String(), `"state":"held","token":"`, `"state":"released"`, `{"leases":[]}`)
	if st, err := s.client(t, nil).Inspect(t.Context(), "orders/42"); err != nil || len(st.Holders) > 0 {
		t.Errorf("%+v, %v", st, err)
	}
}
