// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// TestAwaitStopped: a process that runs does not stand still, and one that was awaited
// does.
func TestAwaitStopped(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells whether a thread stands still; run it there: go test ./internal/servers")
	}
	if stopped(os.Getpid()) {
		t.Error("we stand still")
	}
	cmd := exec.Command("sleep", "60")
	if err := Start(cmd); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if AwaitStopped(cmd.Process.Pid); !stopped(cmd.Process.Pid) {
		t.Error("it does not stand still")
	}
}
