// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package warden

import (
	"os"
	"syscall"
)

func executable() (string, error) { return os.Executable() }

// Without PDEATHSIG, subreapers and /proc there is the process group only.

func bound(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }

func adoptOrphans() {}

const adopts = false

func killDescendants([]int) bool { return false }

func children() []int { return nil }

func reapAll() bool { return false }
