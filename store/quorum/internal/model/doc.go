// SPDX-License-Identifier: Apache-2.0

// Package model searches every interleaving of a small quorum: a few nodes, two
// acquisitions, messages that come late, twice or never, records that vanish,
// nodes that lose their data, sessions that are reopened there and claims that are
// reclaimed. What an acquisition knows and decides is package vote, which the store
// uses too: its arithmetic, and the transitions of vote.Slot and vote.NodeSession.
// Only what nodes do and how messages travel is described here.
//
// Each rule of the protocol has a switch. With all rules on the search finds
// nothing. With any one off it must find a violation, or the rule is not needed,
// or the model does not see what it is for; both are defects, and a test asserts
// both directions.
//
//	rule  says                                                          needed for
//	R1    count only nodes that granted with the token itself           tokens
//	R2    a lift counts only if it made exactly the token asked for     tokens
//	R3    release on a node only after the attempt has settled there    no leftovers
//	R4    do not abandon what is under way on an early exit             no leftovers
//	R5    a node that lost its data grants nothing until all earlier    exclusion
//	      leases must have ended
//	R6    a node knows that it lost its data, and begins above every    tokens
//	      token
//	R7    one list of nodes                                             tokens
//	R8    a node joined later counts with the token itself, or after    continuity
//	      enough nodes that counted have been raised above its vote
//	R9    a renewal counts the nodes of the claim, not of the session   continuity
//	R10   what was sent under a session that ended on a node is         continuity
//	      rejected there, even when the session has been opened again
//	R11   a node that lost its data counts again after it has put the   exclusion
//	      claim back
//	R12   an answer means nothing when the session on the node was      exclusion
//	      opened again since
//	R13   a reclaim counts nodes that were kept alive since the         exclusion
//	      session was reopened
//	R14   a withdrawal goes to every node that was asked to put the     no leftovers
//	      claim back
//	R15   a withdrawal leaves a tombstone while a reclaim may still     no leftovers
//	      arrive
//	R16   a reclaim needs enough nodes that had the claim before        exclusion
//
// What is checked:
//
//	tokens      no two grants have one token, and a grant that was asked for after
//	            another was complete has a higher one
//	continuity  a renewal that was begun after another claim was granted with a
//	            higher token does not succeed
//	exclusion   no two hold at once, where records vanish only when they may
//	no leftovers  when all is quiet and no claim is held, no node keeps a record
//
// Tokens and continuity are searched without any clock: a record may vanish at any
// moment, so early expiry, late expiry and every step of a clock are covered.
package model
