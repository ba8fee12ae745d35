// SPDX-License-Identifier: Apache-2.0

// Package fence checks fencing tokens, so that a resource rejects a holder that has lost
// its lock and writes late. A lease can be lost while its holder is paused, and no lock can
// stop what the holder does when it wakes up. The resource can, if it checks the token:
//
//	holder A, token 512          the row            holder B, token 768
//	      │                                                │
//	 lock, read 100 ───────────▶ fence 512                 │
//	 (paused)                                              │
//	      ┊  lease lost          fence 768 ◀──────── lock, enter, read 100
//	      ┊                      110       ◀──────── write 110
//	 write 150 ────────────────▶ refused: 512 < 768
//
// The guard is a few lines, and three of them are easy to get wrong:
//
//   - The check and the write are one step at the resource. Reading the newest
//     token, comparing here and writing then is the same race again.
//   - Raise the fence, then read, then write. A holder that reads first can
//     read a state that the late writer changes afterwards: the fence still
//     shows the older token and lets it in, and the update is lost.
//   - Accept the same token again, because a holder writes more than once and
//     tries again after a lost reply. So tokens put holders in order, not the
//     writes of one holder: a holder's own retry that arrives late is admitted.
//     Where that matters, make the write conditional on its step, or keep an
//     idempotency key such as lock:token:step.
//
// Ready-made guards are in package sqlfence (database/sql), pgxfence, gormfence, httpfence,
// grpcfence, filefence, s3fence, redisfence and etcdfence. Check is for your own. Prove it with
// package fencetest.
//
// # The lease travels in the context
//
// A guard asks FromContext for the token of the lock it belongs to, so no function in
// between needs an argument for it. A process that got the token in another way
// than by a lease, over HTTP for example, puts it into the context by With.
//
// # What a guard cannot do
//
//   - Guard a resource that others write to without asking it. All writers must
//     go through the guard.
//   - Outlive its memory: the fence must be kept as durably as the data.
//   - Put several holders in order that hold together. Tokens of shared leases
//     that overlap mean nothing to each other: a guard may refuse one that is
//     still held. That is safe, but not what a semaphore is for.
//   - Undo what was let in before. A holder that was admitted and died left its
//     work as far as it came.
package fence
