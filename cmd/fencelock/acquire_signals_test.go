// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

// TestSignalAfterTheGrantOfAcquire: a signal that comes after the grant and before the end of
// acquire does not take the lock away from a script whose acquire succeeds.
func TestSignalAfterTheGrantOfAcquire(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGQUIT} {
		r, w := fullPipe(t) // acquire has the lock and waits for room for the handle
		name := sig.String()
		p := beginWith(t, s.url(), func(c *exec.Cmd) { c.Stdout = w }, "acquire", name, "--ttl", "60s")
		w.Close()
		held := func() bool {
			st, err := c.Inspect(t.Context(), name)
			must.OK(t, err)
			return len(st.Holders) > 0
		}
		until(t, "the agent has the lock", held)
		st, err := c.Inspect(t.Context(), name)
		if err != nil || len(st.Holders) != 1 {
			t.Fatalf("%+v, %v", st, err)
		}
		pid := ownerPID(t, st.Holders[0].Record.Owner)
		defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
		until(t, "the agent has answered", func() bool {
			to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/1", pid))
			return err == nil && to == os.DevNull
		})
		must.OK(t, p.cmd.Process.Signal(sig))
		// Time for an agent that wrongly gets the signal; the result does not depend on it.
		for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end) && alive(pid); time.Sleep(5 * time.Millisecond) {
		}
		out, err := io.ReadAll(r)
		must.OK(t, err)
		switch code := p.end(); {
		case code == 0 && held() && alive(pid): // the signal came after the last check
			t.Logf("%v came too late", sig)
		case code == 128+int(sig) && !held():
			contains(t, string(bytes.TrimLeft(out, "\x00")), "(exit ")
		default:
			t.Errorf("%v: exit code %d, held: %v, the agent lives: %v", sig, code, held(), alive(pid))
		}
	}
}

// TestAgentReleasesBySIGQUIT: the agent gives the lock back for every signal that asks it to end.
func TestAgentReleasesBySIGQUIT(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	handle, pid := startAgent(t, s, "a")
	must.OK(t, syscall.Kill(pid, syscall.SIGQUIT))
	until(t, "the agent has ended", func() bool { return !alive(pid) })
	contains(t, fencelockCLI(t, s.url(), "release", "--handle", handle).want(exitLost).err.String(), "it was released")
}
