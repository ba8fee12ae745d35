// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// TestCurlOfTheDocs: the calls that docs/serve.md shows take a lock and give it back.
func TestCurlOfTheDocs(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"curl", "jq", "bash"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed; install it and run: go test ./cmd/fencelock -run TestCurlOfTheDocs", tool)
		}
	}
	text, err := os.ReadFile("../../docs/serve.md")
	must.OK(t, err)
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

// TestPythonReadme: the lines that clients/python/README.md shows work at the top of a clone, on other ports and in another folder.
func TestPythonReadme(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"redis-server", "redis-cli", "python3", "bash", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed; install it and run: go test ./cmd/fencelock -run TestPythonReadme", tool)
		}
	}
	text, err := os.ReadFile("../../clients/python/README.md")
	must.OK(t, err)
	_, script, _ := strings.Cut(string(text), "\n```sh\n")
	script, rest, _ := strings.Cut(script, "```")
	_, shown, _ := strings.Cut(rest, "```text\n")
	shown, _, ok := strings.Cut(shown, "```")
	if !ok {
		t.Fatal("clients/python/README.md has no lines to try, or not what they print")
	}
	path, err := binary()
	must.OK(t, err)
	port := freePort(t)
	script = strings.NewReplacer("go build -o bin/ ./cmd/fencelock", `cp "$BUILT" bin/fencelock`, "6380", freePort(t), "localhost:7420", "localhost:"+port, "bin/fencelock serve --users", "bin/fencelock serve --listen localhost:"+port+" --users").Replace(script)
	script = strings.ReplaceAll(regexp.MustCompile(`\bbin/`).ReplaceAllLiteralString(script, "$BIN/"), "kill %", "trap - EXIT; kill %")
	// What it starts ends with it, even if a line fails.
	bash := exec.Command("bash", "-euc", "trap 'kill $(jobs -p)' EXIT\n"+script)
	bash.Dir = "../.."
	bash.Env = append(os.Environ(), "BIN="+t.TempDir(), "BUILT="+path, "PYTHONDONTWRITEBYTECODE=1")
	p := beginProgram(t, bash)
	t.Cleanup(func() { _ = p.cmd.Process.Signal(syscall.SIGTERM); p.end() })
	p.want(0)
	digits := regexp.MustCompile(`\d{9,}`)
	_, printed, _ := strings.Cut(p.out.String(), "PONG\n")
	if got, want := digits.ReplaceAllString(printed, "TOKEN"), digits.ReplaceAllString(shown, "TOKEN"); got != want {
		t.Errorf("the lines print %q, and the page shows %q", got, want)
	}
}
