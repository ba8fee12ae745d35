// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os/signal"
	"syscall"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/warden"
	"golang.org/x/sys/unix"
)

// giveTerminal makes the command's process group the one that reads from the
// terminal and gets its ctrl-C, if we are that group now. The returned function
// takes the terminal back.
func giveTerminal(child *warden.Child) (takeBack func()) {
	const tty = 0
	owner, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	if err != nil || owner != unix.Getpgrp() {
		return func() {}
	}
	// Whoever is in the background is stopped for setting the foreground.
	signal.Ignore(syscall.SIGTTOU)
	if unix.IoctlSetPointerInt(tty, unix.TIOCSPGRP, child.PID) != nil {
		return func() {}
	}
	child.Foreground()
	child.Signal(syscall.SIGCONT) // it may have been stopped for reading too early
	return func() { _ = unix.IoctlSetPointerInt(tty, unix.TIOCSPGRP, owner) }
}
