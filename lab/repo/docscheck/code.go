// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
)

var fromComment = regexp.MustCompile(`(?m)^<!--\s*from:\s*(\S+\.go)\s*-->$`)

// sources returns the files that code in documents is taken from.
func sources(files map[string]string) []string {
	found := map[string]bool{}
	for p, text := range files {
		if path.Ext(p) != ".md" {
			continue
		}
		for _, m := range fromComment.FindAllStringSubmatch(text, -1) {
			found[path.Join(path.Dir(p), m[1])] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// packages returns the folders of files, as arguments of the go command.
func packages(files []string) []string {
	found := map[string]bool{}
	for _, f := range files {
		found["./"+path.Dir(f)] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// apart reports whether a file is in a module with its own go.work, below the top. Such a
// module requires hundreds of others, and is compiled with what it tests: make
// figures-adapters.
func apart(top, file string) bool {
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if _, err := os.Stat(filepath.Join(top, dir, "go.work")); err == nil {
			return true
		}
	}
	return false
}

// checkCode compiles the files that code in documents is taken from. Vet and not
// build, because most of them are tests.
func checkCode(top string, files map[string]string) error {
	from := sources(files)
	if len(from) == 0 {
		return fmt.Errorf("no code in documents is taken from a file; is <!-- from: … --> spelled otherwise now?")
	}
	from = slices.DeleteFunc(from, func(f string) bool { return apart(top, f) })
	dirs := packages(from)
	if _, out, err := command(top, append([]string{"vet"}, dirs...)...); err != nil {
		return fmt.Errorf("code that documents show does not compile:\n%s", out)
	}
	fmt.Printf("ok docs-check: %d files that code is taken from compile, in %d packages\n", len(from), len(dirs))
	return nil
}
