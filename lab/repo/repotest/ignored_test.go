// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// sources returns the files below a folder that were written by hand, whatever
// git thinks of them.
func sources(top string) (paths []string, err error) {
	err = fs.WalkDir(os.DirFS(top), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.Type().IsRegular() && slices.Contains([]string{".go", ".lua", ".md"}, filepath.Ext(p)):
			paths = append(paths, p)
		}
		return nil
	})
	return paths, err
}

// ignored returns those of the paths that the patterns of git hide, even if they
// were added by force. A pattern that is too broad hides the next file as well.
func ignored(top string, paths []string) ([]string, error) {
	cmd := exec.Command("git", "check-ignore", "--no-index", "-z", "--stdin")
	cmd.Dir = top
	cmd.Stdin = strings.NewReader(strings.Join(paths, "\x00"))
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil, nil // none
	}
	return slices.DeleteFunc(strings.Split(string(out), "\x00"), func(p string) bool { return p == "" }), err
}

func needGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not here; install it and run this again")
	}
}

// TestNoSourceIsIgnored: what git does not see is in no commit, and no other
// check of this package sees it either.
func TestNoSourceIsIgnored(t *testing.T) {
	needGit(t)
	if _, err := listGit(); err != nil {
		t.Skipf("this is no clone: %v", err)
	}
	paths, err := sources(root)
	must.OK(t, err)
	hidden, err := ignored(root, paths)
	must.OK(t, err)
	for _, p := range hidden {
		t.Errorf("%s is hidden by a .gitignore; make its pattern narrower", p)
	}
}

func TestIgnoredSourceIsFound(t *testing.T) {
	needGit(t)
	dir := t.TempDir()
	git := func(args ...string) {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	for name, text := range map[string]string{
		".gitignore": "coverage.*\n/bin/\n", "a.go": "", "coverage.out": "", "in/coverage.go": "", "in/coverage.md": "", "bin/b.lua": "",
	} {
		file := filepath.Join(dir, name)
		must.OK(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	}
	git("add", "-f", "in/coverage.md")
	paths, err := sources(dir)
	must.OK(t, err)
	got, err := ignored(dir, paths)
	if want := []string{"bin/b.lua", "in/coverage.go", "in/coverage.md"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}
