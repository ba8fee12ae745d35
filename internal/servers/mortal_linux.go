// SPDX-License-Identifier: Apache-2.0

package servers

import "syscall"

// Mortal returns the attributes of a command that ends with the thread that starts it.
func Mortal() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
