// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package servers

import "syscall"

// Mortal returns no attributes: here a command outlives a parent that is killed.
func Mortal() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
