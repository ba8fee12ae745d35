// SPDX-License-Identifier: Apache-2.0

// Package native implements the store over any client library, with a list for each
// lock: layout, Lua scripts and sessions.
//
// The keys and elements are described in lua/lib.lua, the plain commands in fast.go. The rules
// that keep plain commands safe, each found by a test or by package listmodel:
//
//   - There are no tickets during a grace period and once there are votes. Without a ticket a
//     transaction cannot grant, whatever its process believes.
//   - A release removes the ticket before the claim. A ticket without a claim would become
//     that of a claim that is pushed behind it without a ticket: one token twice. If the server
//     rejects only the first command that happens, so an attempt keeps X only behind the
//     ticket that its process was given.
//   - X at the front holds the lock with its ticket. A claim that a process was answered to
//     wait with is Q, and holds nothing until a script has made it G.
//   - A grant whose number is not its ticket is A, which only scripts remove: the claims
//     behind it may have lower tickets and need higher numbers.
//   - A break draws a new number. The number above the broken one may be below the numbers of
//     a lost incarnation.
//   - Only a claim that a script granted from the queue is pushed to its process, so the ticket
//     is its own. A push of an earlier incarnation has a lower number and is dropped.
//   - An attempt adopts a grant of an earlier incarnation only if its process knows the number.
//   - A keep-alive never moves the end of a session back, and brings no session back that was
//     closed or swept. One that arrived after the end is answered with ErrGone.
//   - A server that was replaced and takes over again with its old data has its run id and its
//     tickets. So the marker has the replication id, a grant needs a recent check of it, a session is over only
//     after a fresh one, and a caller that has seen a later incarnation begins a new one.
//   - A claim of which an attempt has an unknown outcome is withdrawn with a tombstone.
//   - Scripts declare all keys, and one that never exists. So a server that moves a slot rejects
//     every script and has done nothing. It would otherwise stop a script in the middle.
//   - A script notifies a process of its grant after its last write, in case it is stopped all the same.
package native
