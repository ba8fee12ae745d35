// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"go.yaml.in/yaml/v3"
)

// commandsIn returns the command lines of fencelock in a document of YAML, wherever they are:
// texts for a shell, and lists of arguments.
func commandsIn(node *yaml.Node) (found [][]string) {
	switch {
	case node.Kind == yaml.ScalarNode && strings.HasPrefix(node.Value, "fencelock "):
		return [][]string{{"sh", "-c", node.Value}}
	case node.Kind == yaml.SequenceNode && len(node.Content) > 0 && node.Content[0].Value == "fencelock":
		var words []string
		for _, n := range node.Content {
			words = append(words, n.Value)
		}
		return [][]string{words}
	}
	for _, n := range node.Content {
		found = append(found, commandsIn(n)...)
	}
	return found
}

// jobsPage returns the command lines of the page, by the bold words above their block.
func jobsPage(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/cli.md")
	must.OK(t, err)
	found := map[string][]string{}
	_, jobs, _ := strings.Cut(string(text), "\n## Jobs and deployments\n")
	jobs, _, _ = strings.Cut(jobs, "\n## ")
	for _, section := range strings.Split(jobs, "\n**")[1:] {
		heading, rest, _ := strings.Cut(section, "**")
		heading = strings.TrimSuffix(heading, ".")
		_, block, ok := strings.Cut(rest, "```yaml\n")
		if !ok {
			continue
		}
		block, _, _ = strings.Cut(block, "```")
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(block), &doc); err != nil {
			t.Fatalf("%s: %v", heading, err)
		}
		commands := commandsIn(&doc)
		if len(commands) != 1 {
			t.Fatalf("%s: commands %v, want one", heading, commands)
		}
		found[heading] = commands[0]
	}
	return found
}

// job is a folder with the scripts that the page runs, and a log that they write.
type job struct {
	*testing.T
	dir, store string
	env        []string
}

func newJob(t *testing.T, s *redisServer) *job {
	t.Helper()
	path, err := binary()
	must.OK(t, err)
	j := &job{T: t, dir: t.TempDir(), store: s.url()}
	j.env = append(j.env, "PATH="+filepath.Dir(path)+":"+os.Getenv("PATH"),
		"GITHUB_REPOSITORY=acme/shop", "GITHUB_SHA=1", "CI_PROJECT_PATH=acme/shop", "CI_COMMIT_SHORT_SHA=2")
	// The folder makes an overlap visible; the store is a secret.
	script := "#!/bin/sh\nmkdir busy || echo overlap >>log\ntest -z \"$FENCELOCK_STORE\" || echo secret >>log\nsleep 0.3\necho \"$FENCELOCK_TOKEN\" >>log\nrmdir busy\ntest ! -e fail\n"
	for _, name := range []string{"report.sh", "deploy.sh"} {
		must.OK(t, os.WriteFile(filepath.Join(j.dir, name), []byte(script), 0o755))
	}
	return j
}

// begin starts a command line of the page.
func (j *job) begin(words []string) *process {
	j.Helper()
	return beginWith(j, j.store, func(cmd *exec.Cmd) {
		if words[0] != "fencelock" {
			cmd.Path = "/bin/" + words[0]
		}
		cmd.Args, cmd.Dir, cmd.Env = words, j.dir, append(cmd.Env, j.env...)
	})
}

// log returns the tokens of the runs so far.
func (j *job) log() (tokens []int64) {
	j.Helper()
	text, err := os.ReadFile(filepath.Join(j.dir, "log"))
	if err != nil && !os.IsNotExist(err) {
		j.Fatal(err)
	}
	for _, line := range strings.Fields(string(text)) {
		token, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			j.Fatalf("log: %s", text)
		}
		tokens = append(tokens, token)
	}
	return tokens
}

// TestJobsPage: the command lines of docs/cli.md do what the page says.
func TestJobsPage(t *testing.T) {
	t.Parallel()
	commands := jobsPage(t)
	t.Run("once per period", func(t *testing.T) {
		words := slices.Clone(commands["Kubernetes CronJob"])
		// A day that ends during the test would be two periods.
		words[slices.Index(words, "24h")] = "876000h"
		j := newJob(t, startRedis(t))
		fail := filepath.Join(j.dir, "fail")
		must.OK(t, os.WriteFile(fail, nil, 0o600))
		j.begin(words).want(1)
		must.OK(t, os.Remove(fail))
		for range 3 {
			j.begin(words).want(0)
		}
		if runs := j.log(); len(runs) != 2 {
			t.Errorf("%d runs, want one that failed and one", len(runs))
		}
	})
	t.Run("one deployment at a time", func(t *testing.T) {
		j := newJob(t, startRedis(t))
		var all []*process
		for _, heading := range []string{"GitHub Actions", "GitLab CI", "GitHub Actions"} {
			all = append(all, j.begin(commands[heading]))
		}
		for _, p := range all {
			p.want(0)
		}
		if runs := j.log(); len(runs) != 3 || !slices.IsSorted(runs) {
			t.Errorf("tokens %v, want three that rise", runs)
		}
	})
}

// TestRunWithFlockInside is the line of docs/migrations.md that holds both
// locks: a job of the old version, which has the file's lock only, keeps it out.
func TestRunWithFlockInside(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("flock is not installed; on Debian: apt-get install util-linux")
	}
	path := filepath.Join(t.TempDir(), "backup")
	file, err := os.Create(path)
	must.OK(t, err)
	defer file.Close()
	must.OK(t, syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	fencelockCLI(t, "mem://", "run", "backup", "--", "flock", "-n", "-E", "9", path, "true").want(9)
	must.OK(t, syscall.Flock(int(file.Fd()), syscall.LOCK_UN))
	fencelockCLI(t, "mem://", "run", "backup", "--", "flock", "-n", "-E", "9", path, "true").want(0)
}
