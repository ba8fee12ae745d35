// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os/signal"
	"syscall"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/supervisor"
	"golang.org/x/sys/unix"
)

// giveTerminal makes the command's process group the one that reads from the
// terminal and gets its ctrl-C, if we are that group now. The returned function
// takes the terminal back; it is nil if nothing was given.
//
// Stdout must be a terminal, too: in "fencelock run a -- cmd | less" it is less that needs
// it, and less is of our group.
func giveTerminal(child *supervisor.Child) (takeBack func()) {
	const tty = 0
	owner, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	if _, other := unix.IoctlGetInt(1, unix.TIOCGPGRP); err != nil || other != nil || owner != unix.Getpgrp() {
		return nil
	}
	// The kernel stops a background process that sets the foreground, by SIGTTOU.
	signal.Ignore(syscall.SIGTTOU)
	if unix.IoctlSetPointerInt(tty, unix.TIOCSPGRP, child.PID) != nil {
		return nil
	}
	child.Foreground()
	return func() { _ = unix.IoctlSetPointerInt(tty, unix.TIOCSPGRP, owner) }
}
