// SPDX-License-Identifier: Apache-2.0

// Package redismodel searches every interleaving of the protocol of layout 2 in small
// configurations: two or three clients, one lock, commands that arrive late or never,
// replies that are lost, sessions that end, data loss and an operator who breaks locks.
// It describes exclusive claims, and shared ones as far as they meet exclusive ones.
//
// A lock is a list of pairs of a ticket and a claim. The first claim that stands is the
// holder. A ticket is the number of a token, and lies ready in a list for the bucket.
//
//	tickets T: 8 10 12 …      list L: │ 4  claim A │ 6  claim B │
//	                                    holder       queue
//
//	client                            server
//	  │  MULTI                          │
//	  │  LMOVE T L        next ticket ──┤ 8
//	  │  RPUSH L claim ─────────────────┤ length
//	  │  HMGET m s<sid> ────────────────┤ marker, session
//	  │  SCRIPT EXISTS ─────────────────┤ run id
//	  │  EXEC                           │
//	  │◀── length 2, the rest as expected: granted
//	  │◀── anything else ──▶ attempt script: granted or queued; again with each poll
//	  │
//	  │  LREM L ticket, LREM L claim, LLEN L
//	  │◀── 1, 1, 0: released
//	  │◀── length above 0 ──▶ wake script ── PUBLISH seq, ticket, since ──▶ the next holder
//	  │◀── 0 or no reply  ──▶ withdraw script
//
// A release does not check the run id or the marker: a search finds nothing wrong without.
//
// A message is executed at once, later or never. The commands of a release are executed
// one by one, with others between them, and the pipeline may end or a command be rejected at
// each of them. The next claim of the client may be in the same pipeline. A client that gives up
// a call withdraws the claim with a tombstone, or repeats the attempt and withdraws with a
// tombstone in the end.
//
// Each rule has a switch. With all rules on the search finds nothing; with one off it must
// find a violation. Rules 1 to 13 are those of the design, in parts where a part can be
// left out. The model found that 14 to 21 are needed too, and shows why 22 to 33 are:
//
//	14  the attempt script keeps a claim that the transaction pushed only if the client
//	    knows the ticket in front of it, from a reply that passed all checks but the
//	    length. Otherwise it removes the claim and pushes it again, in a form that
//	    only scripts write
//	15  a claim of an earlier incarnation may stand, but an attempt never grants it, and a
//	    wake does not notify it: the attempt pushes the claim again, with a new ticket
//	16  a wake message counts only with the ticket the claim was queued with
//	17  a reply that was sent before the session was opened again does not count
//	18  a claim of which an attempt may still arrive is withdrawn with a tombstone, never
//	    released by LREM
//	19  the fence is 1 above the greater of the ticket and the ticket at which the
//	    incarnation began
//	20  a reclaim that meets a claim of an earlier incarnation with a higher ticket is
//	    repeated, not refused: the claim may be that of a transaction that arrived after
//	    the data loss and was not granted
//	21  a reclaim removes the other claims of its session from an earlier incarnation: they
//	    would stand, and make rule 20 wait, until the session has reclaimed everything
//	22  a release that was not answered in full is finished by the withdraw script
//	23  a keep-alive by plain commands never moves the end of a session back (GT)
//	24  nor does it give an end to a session that was removed (XX)
//	25  scripts read the end that keep-alives have moved once the end that they noted is over
//	26  a reply that comes after the trusted deadline does not count: the session had ended,
//	    and the keep-alive has brought it back with claims that no client knows
//	27  a keep-alive counts only if its reply has the marker and the generation of the
//	    session. The run id need not be proved: an incarnation that begins later has its
//	    grace period before it
//
// Rules 28 to 31 are for a server that takes over again with its own old data, without a restart: the run id
// is the same, and what another server has granted in between is unknown to it.
//
//	28  the marker has the replication id, which changes when a replica is promoted. Another id
//	    begins a new incarnation
//	29  so does a caller that knows a later incarnation. It is all that there is if the
//	    server was cut off and never noticed that it was replaced; then a client that does not
//	    know the other server either can be granted a lock beside a holder from there, and with a
//	    lower token. Numbers from the clock would put that token in order, but not those of two
//	    masters at the same time, where the promoted one must have the higher numbers
//	30  scripts read the replication id only now and then. The transaction counts only if the marker
//	    was checked lately; a server that was away while another one could grant has no such check
//	31  a claim is dropped because its session has ended only after a look at the replication id:
//	    the session may have been kept alive on the other server
//
// Rules 32 and 33 are for a script that ends in the middle with an error.
//
//	32  a script notifies a client of its grant after it has written everything: an error in
//	    the middle would otherwise leave a client that holds a lock which is free in the server
//	33  a server that moves the slot rejects a script before its first command, or runs all of it:
//	    one that ended in the middle could lose a claim that waits
//
// Package native has rule 16 in another form: it sends a wake message only for a claim that a
// script has granted from the queue, never for one that the transaction pushed and that became
// the first by itself. A message of an earlier incarnation is known by its number.
//
// That the transaction reads the session (the second half of rule 5) is redundant here: the
// marker, the run id and the trusted deadline of the client cover it.
//
// What is checked:
//
//	exclusion  no two clients hold the lock before their trusted deadlines; without a
//	           grace period only until the first data loss
//	tokens     tickets of grants rise in the order of grants, over a data loss, too
//	fences     a fence is above every earlier token and below every later one
//	progress   from every state in which no call is in flight a fair continuation ends each
//	           claim and leaves the lock free; where no client polls, no wake-up is lost
//	leases     a reclaim in a grace period is not refused unless a lock was broken
//
// Time is modeled for the session of the first client, in the scenes of keep-alives: all clocks
// are alike. Elsewhere a session may end in the server once its client does not trust it
// any more, and a grace period once no client trusts anything older. The clock is above
// every ticket that was issued before a data loss. Not modeled: clocks that differ or are
// moved, late calls that open a session, floors of a quorum, holds, re-entry, queued shared
// claims, the sweep, the batch of one script, and the bound of what a script removes at once.
package redismodel
