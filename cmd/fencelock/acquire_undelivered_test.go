// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// TestAcquireGivesBackWhatCannotBeReported: a lock whose handle no process has read can
// be released by no process, and would be held until --max is over.
func TestAcquireGivesBackWhatCannotBeReported(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must.OK(t, err)
	defer full.Close()
	p := beginWith(t, s.url(), func(c *exec.Cmd) { c.Stdout = full }, "acquire", "full").want(exitInternal)
	contains(t, p.err.String(), "the lock is released")
	if st, err := c.Inspect(t.Context(), "full"); err != nil || len(st.Holders) > 0 {
		t.Errorf("got %+v, %v, want a free lock", st, err)
	}

	// A script that is killed while acquire waits for it: the pipe has no reader.
	l, err := c.Mutex("taken").Lock(t.Context())
	must.OK(t, err)
	r, w, err := os.Pipe()
	must.OK(t, err)
	p = beginWith(t, s.url(), func(c *exec.Cmd) { c.Stdout = w }, "acquire", "taken")
	w.Close()
	until(t, "acquire waits", func() bool { st, err := c.Inspect(t.Context(), "taken"); return err == nil && st.Waiting == 1 })
	// A process that a parallel test is about to start has the reader, too, until it runs its program.
	syscall.ForkLock.RLock()
	r.Close()
	syscall.ForkLock.RUnlock()
	must.OK(t, l.Unlock(t.Context()))
	p.want(exitInternal)
	if st, err := c.Inspect(t.Context(), "taken"); err != nil || len(st.Holders) > 0 {
		t.Errorf("got %+v, %v, want a free lock", st, err)
	}
}

// TestMisspelledAcquireEndsTheScript: eval must fail, too, when the program does not get
// as far as acquire.
func TestMisspelledAcquireEndsTheScript(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "dash"} {
		for _, line := range []string{"acqire x", "acqiure x", "--nonsense acquire x", "--timeout=soon acquire x"} {
			for _, script := range []string{"set -e\neval \"$($F %s)\"\necho works", "eval \"$($F %s)\" || exit\necho works"} {
				if out := scriptIn(t, shell, "mem://", fmt.Sprintf(script, line)).want(exitUsage).out.String(); out != "" {
					t.Errorf("%s: the script went on: %s", line, out)
				}
			}
		}
	}
	if out := fencelockCLI(t, "mem://", "lss").want(exitUsage).out.String(); out != "" {
		t.Errorf("another command printed %q", out)
	}
}

// TestAcquireEndsBySIGQUIT: ctrl-\ is reported as the other signals are, and eval fails.
func TestAcquireEndsBySIGQUIT(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	if _, err := c.Mutex("taken").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := begin(t, s.url(), "acquire", "taken")
	until(t, "acquire waits", func() bool { st, err := c.Inspect(t.Context(), "taken"); return err == nil && st.Waiting == 1 })
	must.OK(t, p.cmd.Process.Signal(syscall.SIGQUIT))
	p.want(128 + int(syscall.SIGQUIT))
	contains(t, p.out.String(), "(exit 131)")
	contains(t, p.err.String(), "interrupted by SIGQUIT")
	if strings.Contains(p.err.String(), "goroutine") {
		t.Error("the message is a stack trace")
	}
}

// TestAcquireFailsIfTheAgentCannotDetach: an agent that cannot let go of the standard files
// does not report a lock that it is about to give back.
func TestAcquireFailsIfTheAgentCannotDetach(t *testing.T) {
	t.Parallel()
	if out, err := bounded(t, "unshare", "--mount", "mount", "-t", "tmpfs", "none", "/dev").CombinedOutput(); err != nil {
		t.Skipf("no mount namespaces here (%v, %s); as root on Linux: go test ./cmd/fencelock -run TestAcquireFailsIfTheAgentCannotDetach", err, out)
	}
	s := startRedis(t)
	path, err := binary()
	must.OK(t, err)
	p := beginWith(t, s.url(), func(c *exec.Cmd) {
		c.Path, _ = exec.LookPath("unshare")
		c.Args = []string{"unshare", "--mount", "sh", "-c", `mount -t tmpfs none /dev && exec "$0" acquire a`, path}
	})
	p.want(exitInternal)
	contains(t, p.err.String(), "/dev/null")
	contains(t, p.out.String(), "(exit 125)")
	if st, err := s.client(t, nil).Inspect(t.Context(), "a"); err != nil || len(st.Holders) > 0 {
		t.Errorf("got %+v, %v, want a free lock", st, err)
	}
}
