// SPDX-License-Identifier: Apache-2.0

package child

import (
	"os/exec"
	"syscall"
)

// EndWithParent makes a child end with a benchmark that is killed.
func EndWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
