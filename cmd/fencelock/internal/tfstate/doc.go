// SPDX-License-Identifier: Apache-2.0

// Package tfstate keeps Terraform states behind a guard: a write is admitted only with the
// id of the lock that is on record beside the state.
//
//	apply A, id a1                record + state              apply B, id b7
//	     │                                                         │
//	 LOCK ─────────────▶ lock a1, fence 512                        │
//	 (paused)                                                      │
//	     ┊     force-unlock ▶ no lock                              │
//	     ┊                    lock b7, fence 768 ◀──────────── LOCK
//	     ┊                    state of B         ◀──────────── write
//	 write ────────────▶ refused: a1 is not on record
//
// Terraform does not renew, and an apply changes real infrastructure whatever happens to its
// lock. So the lock on record has no end: only an unlock removes it, or an operator. What
// orders two locks of one state is the fencing token of the lock in the store, which the
// server holds for the apply: a server that was paused while it locked, and wakes up after
// another one has locked, comes with an older token and is refused.
//
// # Failure cases
//
//   - A write hangs in a server, and is retried on another one: it is refused if it comes after
//     the next write of its lock, by the serial of the state.
//   - The folder vanishes, or its disk is not mounted: nothing is read, and nothing is made. An
//     empty folder would be an empty state.
//   - A server is paused while it changes a record: others give up after ten seconds.
//   - A server dies while it writes: the record leads to the version from before, and the
//     part that was written is removed by a later write.
//   - All servers die: the record stays, and no other apply begins. The lock in the store
//     ends after its TTL, and a server that starts takes it again.
//   - The disk is full: the write fails and the state is as it was.
//   - The folder is on another machine (NFS): the lock of the kernel is a lease there, and
//     two servers may write at once. Use a file system of this machine.
package tfstate
