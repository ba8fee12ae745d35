// SPDX-License-Identifier: Apache-2.0

package servers

import "syscall"

// mortal makes a command end with the thread that starts it.
func mortal() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
