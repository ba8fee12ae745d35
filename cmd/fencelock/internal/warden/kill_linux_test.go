// SPDX-License-Identifier: Apache-2.0

package warden

import (
	"os"
	"os/exec"
	"testing"
)

func TestParentOf(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if ppid, zombie, ok := parentOf(cmd.Process.Pid); ppid != os.Getpid() || zombie || !ok {
		t.Errorf("got %d, %v, %v", ppid, zombie, ok)
	}
	if _, _, ok := parentOf(-1); ok {
		t.Error("a process that does not exist has a parent")
	}
}
