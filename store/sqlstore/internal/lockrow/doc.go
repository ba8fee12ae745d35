// SPDX-License-Identifier: Apache-2.0

// Package lockrow decides what becomes of one lock. It is pure: it takes the lock and
// what is known of the sessions, at one moment of the server's clock, and changes
// the lock. The caller has read both, and writes the lock back if no other process
// has written it since.
//
//	row ──Decode──▶ Lock ─┐
//	                      ├─▶ State ── Attempt, Withdraw, Reclaim, Break ──▶ Lock ──Encode──▶ row
//	sessions, clock ──────┘      └──▶ Pushes: claims to notify
//
// It is written once for all dialects. The statements that do the plain cases in one
// step (an exclusive claim without holds, for a lock that is free, or handed to the
// next of its kind) decide the same, in SQL; drivertest holds both to the clauses.
//
// All times are microseconds since 1970 by the server's clock.
package lockrow
