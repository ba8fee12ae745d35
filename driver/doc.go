// SPDX-License-Identifier: Apache-2.0

// Package driver defines the interface that a store implements. To keep locks on another
// server, implement Store and test it with package drivertest; a store needs nothing else
// of fencelock, and an application does not need this package.
//
// A store is the driver for a server. It keeps, per shard, sessions with an
// end, and per lock name the grants and the queue of waiting claims:
//
//	process A ──KeepAlive──▶ session a ──┐
//	                                     ├─▶ "orders/42": granted a:7 token 512
//	process B ──KeepAlive──▶ session b ──┘                queued b:3, b:9
//
// A grant has no separate time to live. It ends when its session has ended, so
// one call per session and period keeps any number of leases. A
// release grants to the next live claim in the queue inside the store, and the
// store notifies that one process; no other process wakes.
//
// # Contract
//
// The numbered clauses are in docs/spec.md; package drivertest executes the same clauses
// against any store and names the clause a store violates. In the comments of this package
// "guaranteed" is what a store may rely on, and "must" is what a store has to do.
//
// # Admission
//
// Fits and Joins decide which claims are granted together. They are pure functions,
// so that every store written in Go decides the same; a store that decides in a script
// on its server repeats them there.
//
// # Three outcomes
//
// A call is done, certainly not done, or unknown. A driver returns a plain
// error (or one wrapping ErrUnavailable, ErrGone, ErrReset, ErrRefused)
// only if the store certainly did nothing. When a reply is missing it must
// wrap ErrUnknown. The core then asks again with the same claim, because
// Attempt is idempotent per claim, or withdraws it with Tombstone set.
//
// # Time
//
// Durations cross this interface, never instants: no two clocks agree. A store
// expires by its own clock. The core trusts a session until the instant just
// before it sent the last successful call, plus the TTL, minus a share for
// drift and a margin. A store must therefore never count a TTL from earlier
// than when it handled the call.
//
// # Failure cases
//
//   - The reply to Attempt is lost. The claim may be granted, queued or
//     unknown to the store; the same claim comes again.
//   - An Attempt is delayed and arrives after the claim was withdrawn. The
//     session lives on, so nothing would ever clean it up: hence Tombstone.
//   - A Withdraw is repeated, or arrives after a new claim of the same process
//     was granted: it must compare the exact claim.
//   - The holder's process dies: nothing is pushed. The first in the queue
//     polls again after PollAfter.
//   - The process at the head of the queue died: its claim must be skipped.
//   - The server restarts empty, or with the last second missing, or a replica
//     takes over that lags: another incarnation, ErrReset, Reclaim.
package driver
