// SPDX-License-Identifier: Apache-2.0

// Package checkout tells which commit of the repository a program measures, so that a report can name it: before a
// release lab/repo/releasecheck compares it with the last commit that changed what is measured.
package checkout

import (
	"os"
	"os/exec"
	"path/filepath"
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

func git(dir string, args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).Output()
	return strings.TrimSpace(string(out)), err
}
