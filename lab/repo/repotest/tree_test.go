// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// root is the top of the repository, seen from this package.
const root = "../../.."

// A tree is files by slash-separated path from the top of the repository.
type tree map[string][]byte

// treeOf makes a tree of pairs of path and text.
func treeOf(pairs ...string) tree {
	t := tree{}
	for i := 0; i < len(pairs); i += 2 {
		t[pairs[i]] = []byte(pairs[i+1])
	}
	return t
}

// paths returns the paths with one of the suffixes, sorted.
func (t tree) paths(suffixes ...string) []string {
	var ps []string
	for p := range t {
		if slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(p, s) }) {
			ps = append(ps, p)
		}
	}
	slices.Sort(ps)
	return ps
}

// lines returns the lines of a file without their ends.
func (t tree) lines(p string) []string {
	return strings.Split(strings.TrimSuffix(string(t[p]), "\n"), "\n")
}

// hasDir reports whether a file lies in or below dir.
func (t tree) hasDir(dir string) bool {
	for p := range t {
		if dir == "." || strings.HasPrefix(p, dir+"/") {
			return true
		}
	}
	return false
}

// A goFile is a parsed Go file.
type goFile struct {
	path string
	fset *token.FileSet
	ast  *ast.File
}

func (f goFile) dir() string            { return path.Dir(f.path) }
func (f goFile) isTest() bool           { return strings.HasSuffix(f.path, "_test.go") }
func (f goFile) line(pos token.Pos) int { return f.fset.Position(pos).Line }

// complain makes a complaint about a place in the file.
func (f goFile) complain(pos token.Pos, format string, args ...any) complaint {
	return complaint{f.path, f.line(pos), fmt.Sprintf(format, args...)}
}

// parsed has what was parsed, by path and text: a dozen checks read the same files,
// and none changes them.
var parsed sync.Map

// goFiles parses every Go file outside testdata. A file that does not parse
// is left to the compiler.
func (t tree) goFiles() []goFile {
	var files []goFile
	for _, p := range t.paths(".go") {
		if inDir(p, "testdata") {
			continue
		}
		key := p + "\n" + string(t[p])
		if f, ok := parsed.Load(key); ok {
			files = append(files, f.(goFile))
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, p, t[p], parser.ParseComments|parser.SkipObjectResolution)
		if err == nil {
			parsed.Store(key, goFile{p, fset, f})
			files = append(files, goFile{p, fset, f})
		}
	}
	return files
}

// inDir reports whether one of the folders in p is called name.
func inDir(p, name string) bool {
	return slices.Contains(strings.Split(path.Dir(p), "/"), name)
}

// A complaint says where, what, and what to do.
type complaint struct {
	path string
	line int
	text string
}

func (c complaint) String() string { return fmt.Sprintf("%s:%d: %s", c.path, c.line, c.text) }

// repo is the real tree, read once.
var repo = sync.OnceValues(func() (tree, error) {
	paths, err := listGit()
	if err != nil {
		paths, err = listWalk()
		if err != nil {
			return nil, err
		}
	}
	t := tree{}
	for _, p := range paths {
		text, err := os.ReadFile(filepath.Join(root, p))
		if os.IsNotExist(err) {
			continue // deleted, not yet staged
		}
		if err != nil {
			return nil, err
		}
		t[p] = text
	}
	return t, nil
})

// listGit lists what is committed or would be by "git add .", so that a new
// file is checked before it is committed.
func listGit() ([]string, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil || len(out) == 0 {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	return slices.Compact(strings.Split(strings.Trim(string(out), "\x00"), "\x00")), nil
}

// listWalk is for a tree without git, such as an unpacked archive.
func listWalk() ([]string, error) {
	var paths []string
	err := fs.WalkDir(os.DirFS(root), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.Type().IsRegular():
			paths = append(paths, p)
		}
		return nil
	})
	return paths, err
}

// checkRepo fails the test for every complaint about the real tree.
func checkRepo(t *testing.T, check func(tree) []complaint) {
	t.Helper()
	files, err := repo()
	must.OK(t, err)
	for _, c := range check(files) {
		t.Error(c)
	}
}

// wantComplaints fails unless check complains about files exactly so: each
// want is the beginning of a complaint, or all of it, in order.
func wantComplaints(t *testing.T, check func(tree) []complaint, files tree, want ...string) {
	t.Helper()
	got := check(files)
	if len(got) != len(want) {
		t.Fatalf("got %d complaints, want %d: %q", len(got), len(want), got)
	}
	for i, c := range got {
		if !strings.HasPrefix(c.String(), want[i]) {
			t.Errorf("complaint %d:\n got %s\nwant %s…", i, c, want[i])
		}
	}
}

func TestTree(t *testing.T) {
	files, err := repo()
	must.OK(t, err)
	for _, p := range []string{"go.mod", "go.work", "lab/repo/repotest/doc.go"} {
		if len(files[p]) == 0 {
			t.Errorf("%s is missing from the tree; every other check would miss it too", p)
		}
	}
	walked, err := listWalk()
	must.OK(t, err)
	for p := range files {
		if !slices.Contains(walked, p) {
			t.Errorf("%s is known to git but not found by the walk", p)
		}
	}
	if got := treeOf("a.md", "1\n2\n").lines("a.md"); len(got) != 2 || bytes.ContainsRune([]byte(got[1]), '\n') {
		t.Errorf("lines: got %q", got)
	}
}
