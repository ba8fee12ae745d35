// SPDX-License-Identifier: Apache-2.0

// Package checkout tells which commit of the repository a program measures, so that a report can name it, and
// whether a report is older than the code that it measures: lab/repo/evidence measures again what is, and lab/repo/releasecheck
// rejects it before a release.
package checkout

import (
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// module is the first line of the file that is at the top of this repository.
const module = "module github.com/fencelock/fencelock\n"

// Commit names the commit that is checked out in a folder of this repository. It asks
// git: go run does not note the commit in the program, as go build does. It is empty
// without git, outside of a checkout, and in one of something else, where a program
// that was built here may run.
func Commit(dir string) string {
	top, err := git(dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return ""
	}
	if text, err := os.ReadFile(filepath.Join(top, "go.mod")); err != nil || !strings.HasPrefix(string(text), module) {
		return ""
	}
	hash, err := git(dir, "rev-parse", "--short=12", "HEAD")
	if err != nil {
		return ""
	}
	// Results and pages are no part of what is measured, and a run may write some for the next.
	changes, err := git(dir, "status", "--porcelain", "--", ":/", ":(top,exclude)lab/results", ":(top,exclude)lab/load/results", ":(top,exclude)*.md")
	switch {
	case err != nil:
		return hash + ", perhaps with uncommitted changes"
	case changes != "":
		return hash + " with uncommitted changes"
	}
	return hash
}

// Top is the top of the repository that the working directory is in.
func Top() (string, error) {
	top, err := git(".", "rev-parse", "--show-toplevel")
	if err != nil {
		return "", fmt.Errorf("no repository of git is here: %w", err)
	}
	return top, nil
}

// measured is what every store is used through. Tests, and what tests alone import, change no result. Nor does what Check
// says of the settings of a server: judge.go has the words, and no lock depends on them.
var measured = []string{
	":(top,glob)*.go", ":(top)driver/*.go", ":(top)internal/core/*.go",
	":(top,exclude)*_test.go", ":(top,exclude)driver/drivertest", ":(top,exclude,glob)store/*/internal/*test/**",
	":(top,exclude,glob)store/**/judge.go",
}

// Older says why a result of a commit is not one of the code that is checked out in a folder of the repository, or "". The
// result depends on the folders, which are named from the top, and on what every store is used through. What counts
// is what differs, not what was committed since: a change that was undone makes nothing older.
func Older(dir, commit string, folders ...string) (string, error) {
	paths := measured
	for _, f := range folders {
		if found, err := git(dir, "ls-files", "--", ":(top)"+f); err != nil || found == "" {
			return "", errors.Join(err, fmt.Errorf("%s has no files; correct what is measured", f))
		}
		for _, code := range []string{"/*.go", "/*.lua", "/*.sql", "/*go.mod"} {
			paths = append(paths[:len(paths):len(paths)], ":(top)"+f+code)
		}
	}
	if _, err := git(dir, "rev-parse", "--verify", "--quiet", commit+"^{commit}"); err != nil {
		return "is of " + commit + ", which is not here", nil
	}
	changed, err := git(dir, append([]string{"diff", "--name-only", "--no-renames", commit, "HEAD", "--"}, paths...)...)
	if err != nil || changed == "" {
		return "", err
	}
	files := slices.DeleteFunc(strings.Split(changed, "\n"), func(file string) bool {
		return strings.HasSuffix(file, ".go") && slices.Equal(code(dir, commit, file), code(dir, "HEAD", file))
	})
	if len(files) == 0 {
		return "", nil
	}
	return fmt.Sprintf("is of %s, and %d files that it measures have changed", commit, len(files)), nil
}

// code is what a file of Go has in a commit besides comments, except those that the compiler reads. It is empty for a file
// that is not there.
func code(dir, commit, file string) (tokens []string) {
	text, err := git(dir, "show", commit+":"+file)
	if err != nil {
		return nil
	}
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile(file, -1, len(text)), []byte(text), nil, scanner.ScanComments)
	for {
		_, kind, literal := s.Scan()
		switch {
		case kind == token.EOF:
			return tokens
		case kind == token.COMMENT && !strings.HasPrefix(literal, "//go:"):
		default:
			tokens = append(tokens, kind.String()+literal)
		}
	}
}

func git(dir string, args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).Output()
	if err != nil {
		err = fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), err
}
