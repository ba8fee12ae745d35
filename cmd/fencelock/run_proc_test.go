// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// unshared runs a script in new namespaces; $F is the program.
func unshared(t *testing.T, text string, options ...string) *process {
	t.Helper()
	if out, err := bounded(t, "unshare", append(options, "true")...).CombinedOutput(); err != nil {
		t.Skipf("no namespaces here (%v, %s); as root on Linux: go test ./cmd/fencelock", err, out)
	}
	path, err := binary()
	must.OK(t, err)
	return beginWith(t, "mem://", func(c *exec.Cmd) {
		c.Path, _ = exec.LookPath("unshare")
		c.Args = append(append([]string{"unshare"}, options...), "sh", "-c", text)
		c.Env = append(c.Env, "F="+path)
	})
}

// TestRunWithoutProc: the processes of the command could not be ended, so it is not
// started.
func TestRunWithoutProc(t *testing.T) {
	t.Parallel()
	p := unshared(t, `mount -t tmpfs none /proc && $F run a -- echo ran`, "--mount", "--fork").want(exitInternal)
	contains(t, p.err.String(), "no /proc")
	if p.out.String() != "" {
		t.Errorf("the command was started: %s", p.out.String())
	}
}

// TestRunWithTheProcOfAnother: in a container that sees the /proc of its host the
// numbers of processes are others. The user is warned of what that means.
func TestRunWithTheProcOfAnother(t *testing.T) {
	t.Parallel()
	const warning = "is not ended when the lock is lost"
	p := unshared(t, `$F run a -- echo ran; exit $?`, "--pid", "--fork", "--kill-child").want(0)
	contains(t, p.err.String(), warning)
	contains(t, p.out.String(), "ran")
	p = unshared(t, `$F run a -- echo ran; exit $?`, "--pid", "--fork", "--kill-child", "--mount-proc").want(0)
	if strings.Contains(p.err.String(), warning) {
		t.Errorf("a warning of its own /proc: %s", p.err.String())
	}
}
