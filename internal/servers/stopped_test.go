// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// TestAwaitStopped: a process that runs does not stand still, and one that was awaited
// does.
func TestAwaitStopped(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux reports whether a thread stands still; run it there: go test ./internal/servers")
	}
	if stopped(os.Getpid()) {
		t.Error("we stand still")
	}
	cmd := exec.Command("sleep", "60")
	must.OK(t, Start(cmd))
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	must.OK(t, cmd.Process.Signal(syscall.SIGSTOP))
	AwaitStopped(cmd.Process.Pid)
	if !stopped(cmd.Process.Pid) {
		t.Error("it does not stand still")
	}
}

// TestAwaitStoppedDoesNotWaitForTheDead: Redis forks to save. A fork that ended is a zombie
// until its parent, which is stopped, goes on.
func TestAwaitStoppedDoesNotWaitForTheDead(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux reports whether a thread stands still; run it there: go test ./internal/servers")
	}
	cmd := exec.Command("true")
	must.OK(t, Start(cmd))
	defer func() { _ = cmd.Wait() }()
	must.OK(t, Await("a zombie", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		return err == nil && strings.Contains(string(text), ") Z ")
	}))
	if !stopped(cmd.Process.Pid) {
		t.Error("a process that is dead does not stand still")
	}
}
