// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package servers

import "syscall"

// mortal: here a command outlives a parent that is killed.
func mortal() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
