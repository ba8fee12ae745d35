// SPDX-License-Identifier: Apache-2.0

// Package core is the machine behind fencelock's API: sessions, their renewal and
// deadline, queues, claims, grants, and what is left to clean up.
//
//	        Client ── one Shard for each shard of the store
//	                    │
//	   ┌────────────────┼─────────────────────────┐
//	session          queue of each name        one mutex guards them
//	one goroutine    goroutines that wait
//	one timer        one acquisition calls the store
//	   │                │
//	   └──▶ grants ◀────┘  a claim that the store granted
//	           │
//	         leases         one each, or several that re-entered or read together
//
// Where to read:
//
//	how Lock waits            acquisition.go, shard.go; TryLock: try.go
//	what a wait reports       waitreport.go
//	what a grant becomes      grant.go, release.go, downgrade.go
//	renewal, trusted time     session.go, renewal.go
//	notices of waiters        contended.go
//	locks kept after unlock   lease.go, try.go
//	a store that lost data    reclaim.go
//	claims of unknown outcome cleanup.go
//
// The seam to the API is Config: options with their defaults, an Observer, and
// functions that make the API's errors and leases, so that core never imports it. The
// API's Lease holds a Lease of this package: one allocation for both. See decision
// 0029.
//
// What fails, and what happens then:
//
//   - A reply is lost: the attempt is repeated with the same claim, or the claim is
//     withdrawn with a tombstone, so that a late one is not granted.
//   - The store does not answer: leases are trusted until the session's deadline,
//     counted from the send of the last renewal; then every holder is notified.
//   - The store loses its data: the session is opened again with the same id and
//     reclaims its leases before any is renewed.
//   - A caller gives up: what it was given at that moment is handed to the next.
//   - A hook or the store panics: deferred code gives back what no caller will have.
package core
