// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// module is one module of the repository.
type module struct {
	dir   string   // from the top of the repository, "." is the root
	path  string   // module path
	files []string // from the top of the repository
	needs []string // paths of our modules that it imports, itself left out
}

// readModules returns the modules, each after those it needs. Modules with their own go.work
// are among them if apart is set.
func readModules(top string, apart bool) ([]*module, error) {
	files, err := listFiles(top)
	if err != nil {
		return nil, err
	}
	dirs := moduleDirs(files)
	var mods []*module
	for _, dir := range dirs {
		m := &module{dir: dir, files: filesOf(dir, dirs, files)}
		if dir != "." && !apart && slices.Contains(m.files, path.Join(dir, "go.work")) {
			continue
		}
		m.path, err = modulePath(filepath.Join(top, dir, "go.mod"))
		if err != nil {
			return nil, err
		}
		mods = append(mods, m)
	}
	for _, m := range mods {
		m.needs, err = needs(top, m, mods)
		if err != nil {
			return nil, err
		}
	}
	return order(mods)
}

// listFiles lists what is committed or would be by "git add .".
func listFiles(top string) ([]string, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = top
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var files []string
	for _, f := range bytes.Split(bytes.Trim(out, "\x00"), []byte{0}) {
		info, err := os.Lstat(filepath.Join(top, string(f)))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, not yet staged
		}
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() { // module zips hold nothing else
			files = append(files, string(f))
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// moduleDirs returns the folders that have a go.mod.
func moduleDirs(files []string) []string {
	var dirs []string
	for _, f := range files {
		if path.Base(f) == "go.mod" && !slices.Contains(strings.Split(f, "/"), "testdata") {
			dirs = append(dirs, path.Dir(f))
		}
	}
	return dirs
}

// filesOf returns the files of the module in dir: those below it that are not in
// a module further down.
func filesOf(dir string, dirs, files []string) []string {
	var own []string
	for _, f := range files {
		if owner(f, dirs) == dir {
			own = append(own, f)
		}
	}
	return own
}

func owner(file string, dirs []string) string {
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if slices.Contains(dirs, dir) {
			return dir
		}
	}
	return "."
}

func modulePath(gomod string) (string, error) {
	out, err := exec.Command("go", "mod", "edit", "-json", gomod).Output()
	if err != nil {
		return "", fmt.Errorf("go mod edit -json %s: %w", gomod, err)
	}
	var parsed struct{ Module struct{ Path string } }
	err = json.Unmarshal(out, &parsed)
	return parsed.Module.Path, err
}

// needs returns which other modules of ours a module imports, tests included.
func needs(top string, m *module, mods []*module) ([]string, error) {
	found := map[string]bool{}
	for _, f := range m.files {
		if !strings.HasSuffix(f, ".go") || slices.Contains(strings.Split(f, "/"), "testdata") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(top, f), nil, parser.ImportsOnly)
		if err != nil {
			return nil, err
		}
		for _, spec := range parsed.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			if p := provider(imp, mods); p != "" && p != m.path {
				found[p] = true
			}
		}
	}
	var list []string
	for _, other := range mods { // in a fixed order
		if found[other.path] {
			list = append(list, other.path)
		}
	}
	return list, nil
}

// provider returns the path of our module that has a package: the longest that
// is a prefix of it.
func provider(imp string, mods []*module) string {
	best := ""
	for _, m := range mods {
		if (imp == m.path || strings.HasPrefix(imp, m.path+"/")) && len(m.path) > len(best) {
			best = m.path
		}
	}
	return best
}

// order puts each module after those it needs.
func order(mods []*module) ([]*module, error) {
	var done []*module
	have := map[string]bool{}
	for len(done) < len(mods) {
		before := len(done)
		for _, m := range mods {
			ready := !slices.ContainsFunc(m.needs, func(p string) bool { return !have[p] })
			if ready && !have[m.path] {
				done, have[m.path] = append(done, m), true
			}
		}
		if len(done) == before {
			return nil, errors.New("modules need each other in a circle; see docs/decisions/0001-modules-and-folders.md")
		}
	}
	return done, nil
}
