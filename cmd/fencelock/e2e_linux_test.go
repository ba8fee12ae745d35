// SPDX-License-Identifier: Apache-2.0

package main

import "syscall"

// dieWithUs keeps servers from outliving a test binary that is killed.
func dieWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
