// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// TestStatusFileIsReplaced: a reader sees no status while the command runs, neither an
// empty one nor that of an earlier run, and all of it at the end.
func TestStatusFileIsReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "status")
	for range 2 {
		p := fencelockCLI(t, "mem://", "run", "a", "--status-file", file, "--", "sh", "-c", `ls -A `+dir+`; exit 7`).want(7)
		if p.out.String() != "" {
			t.Errorf("while the command runs there is %s", p.out.String())
		}
		if got := readStatus(t, file); got.Outcome != "ran" || got.ExitCode != 7 {
			t.Errorf("got %+v", got)
		}
	}
	if found, err := os.ReadDir(dir); err != nil || len(found) != 1 {
		t.Errorf("left behind: %v, %v", found, err)
	}
}

// TestStatusFileFollowsNoLink: in a directory that others can write to, a link could
// lead to any file of the user.
func TestStatusFileFollowsNoLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	precious, link, dangling := filepath.Join(dir, "precious"), filepath.Join(dir, "link"), filepath.Join(dir, "dangling")
	must.OK(t, os.WriteFile(precious, []byte("precious"), 0o600))
	for path, to := range map[string]string{link: precious, dangling: filepath.Join(dir, "new")} {
		must.OK(t, os.Symlink(to, path))
		contains(t, fencelockCLI(t, "mem://", "run", "a", "--status-file", path, "--", "touch", dir+"/ran").want(exitUsage).err.String(), "symbolic link")
	}
	text, err := os.ReadFile(precious)
	if err != nil || string(text) != "precious" {
		t.Errorf("it is %q, %v", text, err)
	}
	for _, name := range []string{"new", "ran"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
	// That it cannot be written is found before the command runs.
	for _, path := range []string{dir, filepath.Join(dir, "missing", "status")} {
		fencelockCLI(t, "mem://", "run", "a", "--status-file", path, "--", "touch", dir+"/ran").want(exitUsage)
	}
	// A pipe or a device is written to.
	contains(t, script(t, "mem://", `$F run a --status-file /dev/stdout -- true | cat`).want(0).out.String(), `"outcome":"ran"`)
}

// TestRunDropsTheStore: the URL may have a password in it, and the command gets it
// unless a flag changes that.
func TestRunDropsTheStore(t *testing.T) {
	t.Parallel()
	const show = `echo "store=${FENCELOCK_STORE-none} name=$FENCELOCK_NAME"`
	contains(t, fencelockCLI(t, "mem://", "run", "a", "--", "sh", "-c", show).want(0).out.String(), "store=mem:// name=a")
	contains(t, fencelockCLI(t, "mem://", "run", "a", "--drop-store", "--", "sh", "-c", show).want(0).out.String(), "store=none name=a")
}

// TestMessagesHaveOnePrefix: errors of the library begin with the name of the program,
// too.
func TestMessagesHaveOnePrefix(t *testing.T) {
	var b strings.Builder
	a := &app{err: &b}
	a.note("%v", errors.Join(errors.New("fencelock: close (redis): context deadline exceeded"), errors.New("fencelock: lease lost")))
	if got, want := b.String(), "fencelock: close (redis): context deadline exceeded; lease lost\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestSignalsAreNamed: as in a manual, not as the system describes them.
func TestSignalsAreNamed(t *testing.T) {
	if got := interrupted(syscall.SIGTERM).Error(); got != "interrupted by SIGTERM" {
		t.Errorf("got %q", got)
	}
}
