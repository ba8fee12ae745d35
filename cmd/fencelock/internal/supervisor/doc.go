// SPDX-License-Identifier: Apache-2.0

// Package supervisor runs a command and makes sure that all of it is dead in time,
// even if the process that holds the lock is killed or stopped.
//
// Three processes take part. The holder has the lease. The supervisor is the same
// program, started by the holder; it is the parent of the command and has no
// other duty than to end it:
//
//	holder ──"until T", "signal N", "kill"──▶ supervisor ──▶ command ──▶ its children
//	  ▲                                          │       └─ a process group ─┘
//	  └──────"started", "exited", "empty"────────┘
//
// "until" is a dead man's switch: an instant of a clock that counts suspend, by
// which the supervisor kills everything unless it was sent a later one. The holder
// sends it again after every renewal. So:
//
//   - The lease is about to be lost: the holder says so, TERM first, then KILL.
//   - The holder is killed with SIGKILL: its end of the pipe closes, and the
//     supervisor kills everything at once.
//   - The holder is stopped (SIGSTOP, a debugger, starved): "until" passes, and
//     the supervisor kills everything.
//   - The supervisor is killed: on Linux the command dies with it (PDEATHSIG), the
//     rest becomes the holder's children (subreaper), and the holder kills it.
//   - The supervisor is stopped: nothing happens until the lock is lost. Then it does not
//     obey, and the holder kills it, with what comes of that.
//   - Both are stopped: no process ends the command.
//   - Both are killed in the same moment: on Linux the command itself still
//     dies; children of the command may survive. Elsewhere all may survive.
//
// What is "everything": the process group of the command and, on Linux, every
// descendant, even one that started a new group or session. Elsewhere a
// process that leaves the group escapes. A process that waits in the kernel for
// a broken disk or file server dies only when the kernel lets it. A
// set-user-ID program is not reached by PDEATHSIG. A process that has become
// another user, as below sudo, is reached by no signal unless this program is
// root's: it is reported ("unreached") and waited for.
//
// Rejected: the holder as the parent. Then no process is left to kill the group when
// the holder dies, and PDEATHSIG reaches one process only.
package supervisor
