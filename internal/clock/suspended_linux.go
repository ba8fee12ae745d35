// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"syscall"
	"time"
	"unsafe"
)

const (
	monotonic = 1 // CLOCK_MONOTONIC
	boottime  = 7 // CLOCK_BOOTTIME
)

// machineSuspended returns CLOCK_BOOTTIME minus CLOCK_MONOTONIC. The two cannot
// be read at one instant, and being descheduled between the reads would look
// like a suspend. So the boot time is read first: that can only make the
// difference too small, and the next reading makes up for it.
func machineSuspended() time.Duration {
	boot := read(boottime)
	return boot - read(monotonic)
}

func read(id uintptr) time.Duration {
	var ts syscall.Timespec
	// The call cannot block and cannot fail for these clocks on any kernel Go
	// supports; a zero would only mean that no suspend is seen.
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}
