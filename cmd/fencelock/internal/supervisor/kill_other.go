// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package supervisor

import (
	"os"
	"syscall"
)

func executable() (string, error) { return os.Executable() }

// Without PDEATHSIG, subreapers and /proc there is the process group only.

func bound(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }

func adoptOrphans() {}

// Blind is false: that a process which leaves the group escapes holds for the system.
func Blind() bool { return false }

const adopts = false

func killDescendants([]int) (bool, []Process) { return false, nil }

func unreachable() []Process { return nil }

func children() []int { return nil }

func reapAll() bool { return false }

func groupRuns(int) bool { return true }
