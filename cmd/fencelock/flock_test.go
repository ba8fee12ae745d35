// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// TestRunWithFlockInside is the line of docs/migrations/flock.md that holds both
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
