// SPDX-License-Identifier: Apache-2.0

// Package lock decides about one lock of an etcd store, and does no I/O: what its
// keys are called, what they add up to, who is to be granted next and what that
// decision rests on.
//
//	keys at one revision ──▶ Snapshot ──Settle──▶ Plan: drop, promote,
//	or a guess                                      and what to compare
//
// etcd's transactions can compare and write but not decide, so the decision is made
// here, and the transaction compares what it rests on. Two decisions on the same
// snapshot cannot both be carried out where it matters:
//
//   - A grant compares that no claim was granted since. Grants that ended since
//     only make more room, so nothing too much is granted.
//   - A release without a grant compares that what keeps the next one out is
//     still there (Witness), or that no claim came since (Tail). So of two who leave
//     at the same time the second sees that he is the last.
//   - New claims come to the end of the queue, which no decision about its front
//     rests on.
package lock
