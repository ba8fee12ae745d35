// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
)

// served starts the command line of a package, with its folders in a temporary one and on a free
// port, and returns its URL.
func served(t *testing.T, s *redisServer, args []string, paths ...string) string {
	t.Helper()
	for i := range args {
		args[i] = regexp.MustCompile(`^[0-9.]+:7420$`).ReplaceAllString(strings.NewReplacer(paths...).Replace(args[i]), "127.0.0.1:0")
	}
	p := begin(t, s.url(), args...)
	until(t, "it serves", func() bool { return servedAt.MatchString(p.err.String()) || !running(p) })
	at := servedAt.FindStringSubmatch(p.err.String())
	if at == nil {
		t.Fatalf("%q: %s", args, p.err.String())
	}
	return at[1]
}

func running(p *process) bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// as fetches a path with a token.
func as(t *testing.T, token, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	must.OK(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := web.Do(req)
	must.OK(t, err)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestUnit: systemd accepts the unit, finds little that it could still take from it, and its
// command line serves.
func TestUnit(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("packaging/fencelock-serve.service")
	must.OK(t, err)
	const program = "/usr/local/bin/fencelock"
	line := regexp.MustCompile(`(?m)^ExecStart=` + program + ` (.*)$`).FindStringSubmatch(string(text))
	if line == nil {
		t.Fatal("no ExecStart")
	}
	s, dir := startRedis(t), t.TempDir()
	users := filepath.Join(dir, "users.json")
	token := strings.TrimSpace(fencelockCLI(t, s.url(), "serve", "token", "ann", "--may", "see", "--users", users).want(0).out.String())
	must.OK(t, os.WriteFile(filepath.Join(dir, "watches"), []byte("deploy/*\n"), 0o600))
	url := served(t, s, strings.Fields(line[1]), "/etc/fencelock", dir, "/var/log/fencelock", dir)
	for path, want := range map[string]int{"/v1/locks": 200, "/metrics": 200} {
		if got := as(t, token, url+path); got != want {
			t.Errorf("%s: status %d, want %d", path, got, want)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed; on Debian: apt-get install systemd")
	}
	path, err := binary()
	must.OK(t, err)
	unit := filepath.Join(dir, "fencelock-serve.service")
	must.OK(t, os.WriteFile(unit, []byte(strings.ReplaceAll(string(text), program, path)), 0o600))
	for _, args := range [][]string{{"verify", "--man=no", unit}, {"security", "--offline=true", "--threshold=15", unit}} { // of 100
		if out, err := bounded(t, analyze, args...).CombinedOutput(); err != nil || args[0] == "verify" && len(out) > 0 {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}
}

// TestDockerContextHasTheSource: .dockerignore leaves the history out, and nothing that the program is built from.
func TestDockerContextHasTheSource(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../.dockerignore")
	must.OK(t, err)
	root, err := filepath.Abs("../..")
	must.OK(t, err)
	dirs, err := bounded(t, "go", "list", "-deps", "-f", "{{.Dir}}", ".").Output()
	must.OK(t, err)
	work, err := bounded(t, "go", "list", "-m", "-f", "{{.Dir}}").Output() // go.work needs the modules, too
	must.OK(t, err)
	needed := strings.Fields(string(dirs) + string(work))
	if !slices.Contains(needed, filepath.Join(root, "cmd", "fencelock")) {
		t.Fatalf("the program itself is not listed: %q", needed)
	}
	left := strings.Fields(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(string(text), ""))
	if !slices.Contains(left, ".git") {
		t.Error("the history is copied")
	}
	for _, name := range left {
		for _, dir := range needed {
			if within := filepath.Join(root, name); dir == within || strings.HasPrefix(dir, within+"/") {
				t.Errorf("%s is left out, and %s is needed", name, dir)
			}
		}
	}
}

// composed is what the test reads of compose.yaml.
type composed struct {
	Services map[string]struct {
		Command     []string `yaml:"command"`
		Healthcheck struct {
			Test []string `yaml:"test"`
		} `yaml:"healthcheck"`
	} `yaml:"services"`
}

func readCompose(t *testing.T) (file composed) {
	t.Helper()
	text, err := os.ReadFile("packaging/compose.yaml")
	must.OK(t, err)
	must.OK(t, yaml.Unmarshal(text, &file))
	return file
}

// healthy runs the health check of a container.
func healthy(t *testing.T, check []string, url string) {
	t.Helper()
	if len(check) < 2 || check[0] != "CMD" || check[1] != "/usr/local/bin/fencelock" {
		t.Fatalf("the image has no program for %q", check)
	}
	fencelockCLI(t, "mem://", append(check[2:], url)...).want(0)
	fencelockCLI(t, "mem://", append(check[2:], "http://127.0.0.1:1")...).want(69)
}

// stopped stops workers as docker stop does, with a signal to the shell alone.
func stopped(t *testing.T, workers []*process) {
	t.Helper()
	for _, worker := range workers {
		if err := worker.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("a worker that is stopped: %v", err)
		}
		worker.want(0)
	}
}

// TestCompose: the command lines of the compose file, run without containers: a token is made
// once, the server shows the locks, and both workers get their turns.
func TestCompose(t *testing.T) {
	t.Parallel()
	file := readCompose(t)
	path, err := binary()
	must.OK(t, err)
	s, dir := startRedis(t), t.TempDir()
	shell := func(name string) *process {
		command := file.Services[name].Command
		if len(command) != 3 || command[0] != "sh" {
			t.Fatalf("%s: %q is not a command of the shell", name, command)
		}
		return beginWith(t, s.url(), func(cmd *exec.Cmd) {
			cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", strings.NewReplacer("/data", dir, "$$", "$").Replace(command[2])}
			cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(path)+":"+os.Getenv("PATH"))
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		})
	}
	token := strings.TrimSpace(shell("users").want(0).out.String())
	if again := shell("users").want(0).out.String(); again != "" {
		t.Errorf("another token is made with every start: %s", again)
	}
	var workers []*process
	for _, name := range []string{"worker-1", "worker-2"} {
		worker := shell(name)
		workers = append(workers, worker)
		t.Cleanup(func() { _ = syscall.Kill(-worker.cmd.Process.Pid, syscall.SIGKILL) })
	}
	url := served(t, s, file.Services["server"].Command, "/data", dir, "/audit", dir)
	healthy(t, file.Services["server"].Healthcheck.Test, url)
	if got := as(t, token, url+"/v1/lock?name=demo/report"); got != 200 {
		t.Errorf("status %d", got)
	}
	c, owners := s.client(t, nil), map[string]bool{}
	until(t, "both workers have held the lock", func() bool {
		st, err := c.Inspect(t.Context(), "demo/report")
		must.OK(t, err)
		for _, h := range st.Holders {
			owners[h.Record.Owner] = true
		}
		return len(owners) >= 2
	})
	stopped(t, workers)
	if h := holderOf(t, c, "demo/report"); h != 0 {
		t.Errorf("the lock is held with token %v after the workers have ended", h)
	}
}

// holderOf is the token with which a lock is held, 0 if it is free.
func holderOf(t *testing.T, c *fencelock.Client, name string) fencelock.Token {
	t.Helper()
	st, err := c.Inspect(t.Context(), name)
	must.OK(t, err)
	if len(st.Holders) == 0 {
		return 0
	}
	return st.Holders[0].Token
}
