// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

func TestStatOf(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	must.OK(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if st, ok := statOf(cmd.Process.Pid); st != (stat{os.Getpid(), syscall.Getpgrp(), false}) || !ok {
		t.Errorf("got %+v, %v", st, ok)
	}
	for name, below := range map[string]func(int) []int{"children": childrenOf, "scan": scan()} {
		if found := below(os.Getpid()); !slices.Contains(found, cmd.Process.Pid) {
			t.Errorf("%s: %d is not among %v", name, cmd.Process.Pid, found)
		}
	}
	if _, ok := statOf(-1); ok {
		t.Error("a process that does not exist has a parent")
	}
}
