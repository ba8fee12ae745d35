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

func TestCommit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed; on Debian: apt-get install git")
	}
	dir := t.TempDir()
	if got := Commit(dir); got != "" {
		t.Errorf("outside of a checkout: %q", got)
	}
	do := func(args ...string) {
		t.Helper()
		args = append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"}, args...)
		if out, err := git(dir, args...); err != nil {
			t.Fatal(args, out, err)
		}
	}
	write := func(file, text string) {
		t.Helper()
		file = filepath.Join(dir, file)
		must.OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must.OK(t, os.WriteFile(file, []byte(text), 0o644))
	}
	do("init", "-q")
	write("go.mod", "module example.org/other\n")
	do("add", "-A")
	do("commit", "-q", "-m", "one")
	if got := Commit(dir); got != "" {
		t.Errorf("in a checkout of something else: %q", got)
	}
	write("go.mod", module)
	do("add", "-A")
	do("commit", "-q", "-m", "two")
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
