// SPDX-License-Identifier: Apache-2.0

package checkout

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// repository is one of a test.
type repository struct {
	*testing.T
	dir string
}

func newRepository(t *testing.T) repository {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed; on Debian: apt-get install git")
	}
	return repository{t, t.TempDir()}
}

func (r repository) do(args ...string) {
	r.Helper()
	args = append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"}, args...)
	if out, err := git(r.dir, args...); err != nil {
		r.Fatal(args, out, err)
	}
}

func (r repository) write(file, text string) {
	r.Helper()
	file = filepath.Join(r.dir, file)
	must.OK(r, os.MkdirAll(filepath.Dir(file), 0o755))
	must.OK(r, os.WriteFile(file, []byte(text), 0o644))
}

// commit writes a file and commits it.
func (r repository) commit(file, text string) {
	r.Helper()
	r.write(file, text)
	r.do("add", "-A")
	r.do("commit", "-q", "-m", file)
}

func TestCommit(t *testing.T) {
	r := newRepository(t)
	dir, write := r.dir, r.write
	if got := Commit(dir); got != "" {
		t.Errorf("outside of a checkout: %q", got)
	}
	r.do("init", "-q")
	r.commit("go.mod", "module example.org/other\n")
	if got := Commit(dir); got != "" {
		t.Errorf("in a checkout of something else: %q", got)
	}
	r.commit("go.mod", module)
	want, err := git(dir, "rev-parse", "HEAD")
	must.OK(t, err)
	got := Commit(dir)
	if len(got) != 12 || !strings.HasPrefix(want, got) {
		t.Errorf("got %q, want the beginning of %q", got, want)
	}
	write("lab/results/benchmarks/redis/results.json", "results")
	write("docs/compatibility.md", "results")
	if again := Commit(dir); again != got {
		t.Errorf("after results were written: %q, want %q", again, got)
	}
	write("new.go", "package new")
	for _, below := range []string{"", "lab"} {
		if again := Commit(filepath.Join(dir, below)); again != got+" with uncommitted changes" {
			t.Errorf("with a new file, seen from %q: %q", below, again)
		}
	}
}

func TestOlder(t *testing.T) {
	r := newRepository(t)
	r.do("init", "-q")
	r.commit("go.mod", module)
	r.commit("store/redis/lock.lua", "1")
	measured := Commit(r.dir)
	older := func(folders ...string) string {
		t.Helper()
		why, err := Older(filepath.Join(r.dir, "store"), measured, folders...)
		must.OK(t, err)
		return why
	}
	for _, file := range []string{"store/redis/lock_test.go", "store/README.md", "cmd/main.go", "driver/drivertest/a.go", "store/redis/internal/redistest/a.go", "store/redis/internal/native/judge.go"} {
		if r.commit(file, "1"); older("store") != "" {
			t.Errorf("%s made it older: %s", file, older("store"))
		}
	}
	for _, file := range []string{"lock.go", "driver/a.go", "internal/core/a.go", "store/redis/lock.lua", "store/redis/internal/native/a.go"} {
		if r.commit(file, "2"); !strings.Contains(older("store"), "1 files") {
			t.Errorf("%s did not make it older: %q", file, older("store"))
		}
		r.do("revert", "--no-edit", "HEAD")
	}
	if why := older("cmd"); !strings.Contains(why, "1 files") {
		t.Errorf("what was named did not make it older: %q", why)
	}
	if why := older(); why != "" {
		t.Errorf("a change that was undone made it older: %s", why)
	}
	if why, err := Older(r.dir, "0123456789ab", "store"); err != nil || !strings.Contains(why, "not here") {
		t.Errorf("a commit that is not here: %q, %v", why, err)
	}
	if _, err := Older(r.dir, measured, "moved"); err == nil {
		t.Error("a folder that has moved was accepted: its changes would not be noticed")
	}
	r.commit("store/redis/a.go", "package a\n\nvar d = `1`\n")
	measured = Commit(r.dir)
	for _, c := range []struct {
		text  string
		older bool
	}{
		{"package a // b\n\n// c\nvar d = `1`\n", false}, {"package a\n\nvar d = `2`\n", true}, {"package a\n\n//go:embed e\nvar d = `1`\n", true},
	} {
		r.commit("store/redis/a.go", c.text)
		if why := older("store"); (why != "") != c.older {
			t.Errorf("%q: got %q, want older %v", c.text, why, c.older)
		}
		r.do("reset", "-q", "--hard", "HEAD~1")
	}
}
