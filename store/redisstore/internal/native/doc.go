// SPDX-License-Identifier: Apache-2.0

// Package native implements the store in our own format, over any client library, with a list for each
// lock: layout, Lua scripts and sessions.
//
// # The way of a lock
//
// A lock that is free is acquired by one transaction of plain commands:
//
//	fencelock.Mutex.Lock ──▶ core: Shard.Acquire · acquireOn · claimOn · sentClaim.attempt
//	  session.Attempt                 session.go    encode the record, claims.begin
//	    plain.mayAcquire              plain.go      no: attempt.lua decides, below
//	    session.acquire               session.go
//	      batcher.do                  batch.go      in company: one script for all, batch.lua
//	        plain.acquire             plain.go      MULTI LMOVE RPUSH HMGET SCRIPT EXISTS EXEC
//	          Client.Send             goredis       ──▶ the server
//	        plain.counts              plain.go      ◀── do the replies show that a script would have granted it?
//	    claims.stands                 claims.go
//	  core: admit · install ──▶ *Lease
//
// A lock that is held, or has terms of its own, is decided by a script, and its release wakes the next:
//
//	session.Attempt ─▶ session.attempt ─▶ session.call ─▶ runProof.call ─▶ Client.Eval: attempt.lua ─▶ QUEUED
//	session.Await   ◀─ session.message ◀─ Client.Listen ◀─ PUBLISH ◀─ release (decide.lua) ◀─ Withdraw of the holder
//
// # The decisions
//
// Who may hold a lock is decided in lua/decide.lua, and for plain commands in plain.counts; who may give one back in lua/decide.lua
// (release), and for plain commands in plain.release. A new rule is a change in these two places.
//
// What a process knows of one of its claims is one record with a state (claims.go), and all records of a session are behind one mutex.
// The keys and elements are described in lua/lib.lua.
//
// # The rules
//
// They keep plain commands safe; each was found by a test or by package redismodel:
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
