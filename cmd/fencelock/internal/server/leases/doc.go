// SPDX-License-Identifier: Apache-2.0

// Package leases holds leases for clients that are not written in Go and talk to a server.
//
//	client ── handle, id ──▶ server A ── claim, ReentrantAs(HMAC(handle, user, lock, id)) ──▶ store
//	   │                        ✗ killed                                                      │
//	   └───── handle, id ──▶ server B ── joins the same grant, with the same token ───────────┘
//
// A session of a client is a secret, its handle, and nothing else: no server and no store
// keeps it. A lease of the client is a claim of the server that it was acquired through, on
// that server's own session in the store, re-entrant by a text that only a server can
// compute to which the client has sent its handle. So any other server can join the grant
// while the store has it, and the fencing token stays the same. A server that is killed
// leaves its claims to the store, which ends them after the server's TTL; until then a client that
// renews through another server keeps its lease.
//
// A server holds a lease for a client as long as the client names it in a call within the
// TTL of its session; then it unlocks.
//
// # Time
//
// A client counts trusted time from before it sent its call. The server counts it from when
// it received the call, which is later, up to the earlier of two ends: that of its lease
// in the store, and that of the client's TTL, less a margin. A share is taken off because the
// two clocks may not run at the same speed.
//
// # Failure cases
//
//   - The answer to an acquisition is lost: the same id gets the same lease, at this server
//     or at another.
//   - The client is killed: its leases are unlocked after its TTL.
//   - The server is killed: clients renew elsewhere. If the client is killed, too, its leases end
//     with the TTL of the server.
//   - The server is cut off from the store: it answers with elsewhere while clients can trust it
//     still, and with an error then. Clients renew elsewhere.
//   - The client moves to another server while the first one lives: both have a claim on one
//     grant. The first unlocks its own after the client's TTL. A release breaks what is left,
//     by the token, if the client knows that its lease may have moved: a renewal reports a move at
//     once.
//   - The client gives up at another server than the one that waits for it: that one waits for a
//     TTL more, and may be granted the lock for another.
//   - An acquisition that was delayed arrives after the release: it may be granted, and is
//     unlocked after the TTL, because no client names it.
//   - The store has no re-entry or no tokens (memcached): a lease cannot move. It is lost if its
//     server is, and a release at another server reports that it was not released.
package leases
