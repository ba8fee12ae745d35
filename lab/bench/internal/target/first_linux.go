// SPDX-License-Identifier: Apache-2.0

package target

import "syscall"

// ComeFirst lets a process, or the calling thread if it is 0, run before all others of the machine, if we may: a figure that asks for how
// long a server does not answer must not count the time in which the server, or the one who asks, did not run. Without that an
// LREM of a microsecond took up to 9 ms by the wall clock on two processors with sixteen clients.
func ComeFirst(pid int) { _ = syscall.Setpriority(syscall.PRIO_PROCESS, pid, -20) }
