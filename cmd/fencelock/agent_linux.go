// SPDX-License-Identifier: Apache-2.0

package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// bind watches a process: gone reports whether it has ended, signal sends to it. A process
// that has ended and that is not collected is gone, too, and its number may become that of
// another: a descriptor of the process knows both, a number neither.
func bind(pid int) (gone func() bool, send func(syscall.Signal)) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return bindByNumber(pid) // it is gone already, or the kernel is older than 5.3
	}
	gone = func() bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return err == nil && n == 1
	}
	return gone, func(sig syscall.Signal) { _ = unix.PidfdSendSignal(fd, sig, nil, 0) }
}

// keepDescriptors makes sure that a process started from now on gets none of our
// descriptors but 0 to 2.
func keepDescriptors() {
	if unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) != nil {
		markDescriptors() // a kernel before 5.11
	}
}
