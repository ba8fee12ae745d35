// SPDX-License-Identifier: Apache-2.0

package warden

import (
	"os"
	"os/exec"
	"slices"
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
	for name, below := range map[string]func(int) []int{"children": childrenOf, "scan": scan()} {
		if found := below(os.Getpid()); !slices.Contains(found, cmd.Process.Pid) {
			t.Errorf("%s: %d is not among %v", name, cmd.Process.Pid, found)
		}
	}
	if _, _, ok := parentOf(-1); ok {
		t.Error("a process that does not exist has a parent")
	}
}
