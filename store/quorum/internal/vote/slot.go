// SPDX-License-Identifier: Apache-2.0

package vote

import (
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/enum"
)

// Slot is one claim on one node, as its process knows it: two machines, what the node
// answered (Standing) and how the claim is taken back (Removal), and the call that is in
// flight. Methods return the slot after an event; they change nothing and call nothing.
// Package quorum makes the calls, package model searches every order of the events.
type Slot struct {
	Standing Standing
	Removal  Removal
	Call     Call
	// Token is the token of the latest grant.
	Token driver.Token
	// Lost is the token of a grant on a node that lost its data, until the node has
	// answered whether it has the claim again.
	Lost driver.Token
	// Counted is set with Lost, when a session is reopened, and when a grant is put back on a node that does not count yet, if
	// the grant counted.
	Counted bool
	// Late is set when an attempt may still arrive at the node, or may have been granted
	// although its answer never came.
	Late bool
	// Stray is set when a call whose answer never came may still arrive at the node, whatever a later one found.
	Stray bool
	// Again is set when a round needs the node asked after the claim was withdrawn there.
	Again bool
	// Had is set if the claim was granted there when its withdrawal was asked for, and
	// Found is what the withdrawal found.
	Had   bool
	Found driver.Removed
	// Try counts the withdrawals: each try has its own number on the node.
	Try uint16
	// Asked counts the calls by which anything of the claim may be on the node under this
	// try: attempts but for those that certainly did nothing, and reclaims.
	Asked int
	// Reclaims counts the reclaims in flight. They do not exclude another call.
	Reclaims int
}

// Standing is what a node answered last about a claim.
//
//	           OnReply, OnPush
//	Absent ─────────────────────▶ Granted | Queued | Refused | Resting | Denied | Unreachable
//	  ▲ ▲                           │  ▲           │ any of them asked again
//	  │ └──── OnWithdrawn ──────────┤  └───────────┘
//	  │                             │
//	  └────── SessionLost ──────────┘ after a data loss Lost keeps the token of a grant,
//	                                  and OnReclaimed makes it Granted again
type Standing uint8

const (
	// Absent: nothing is known of the claim there.
	Absent Standing = iota
	// Granted: with Token.
	Granted
	// Queued: it waits in the queue of the node.
	Queued
	// Refused: another claim is in the way.
	Refused
	// Resting: the node grants nothing new for a time.
	Resting
	// Unreachable: the node did not answer, or was not asked.
	Unreachable
	// Denied: the node rejects this try for good. It is tombstoned, or its grant is over.
	Denied
)

// String returns the word in lower case.
func (s Standing) String() string {
	return enum.String("standing", s, "absent", "granted", "queued", "refused", "resting", "unreachable", "denied")
}

// Call is the call in flight for a claim on a node. There is one at most, so a withdrawal
// never overtakes the attempt that it is for.
type Call uint8

const (
	// Idle: none is.
	Idle Call = iota
	// Attempting: the claim is asked for.
	Attempting
	// Withdrawing: the claim is taken back.
	Withdrawing
)

// String returns the word in lower case.
func (c Call) String() string { return enum.String("call", c, "idle", "attempting", "withdrawing") }

// Busy reports whether a call is in flight.
func (s Slot) Busy() bool { return s.Call != Idle }

// Reply is how an attempt on a node ended.
type Reply uint8

const (
	// ReplyNotSent: the attempt could not be sent.
	ReplyNotSent Reply = iota
	// ReplyNotReady: it was not sent because the node does not accept the session yet.
	ReplyNotReady
	// ReplyRejected: an error that means that nothing was done.
	ReplyRejected
	// ReplyCut: the call was cut off.
	ReplyCut
	// ReplyUnknown: it was sent, and what came of it is unknown.
	ReplyUnknown
	// ReplyGranted: with a token.
	ReplyGranted
	// ReplyQueued: it waits on the node.
	ReplyQueued
	// ReplyBusy: another claim is in the way.
	ReplyBusy
	// ReplyGrace: the node grants nothing new.
	ReplyGrace
	// ReplyAbsent: the node rejects the claim for good.
	ReplyAbsent
)

// did reports whether the attempt may have left something on the node.
func (r Reply) did() bool { return r >= ReplyCut }

// answered reports whether the node answered what it has of the claim.
func (r Reply) answered() bool { return r >= ReplyGranted }

// Ask begins an attempt, and reports whether it shall be sent: not while a call is in
// flight.
func (s Slot) Ask() (Slot, bool) {
	if s.Call != Idle {
		return s, false
	}
	s.Again, s.Call = false, Attempting
	s.Asked++
	return s, true
}

// AskAgain notes that a round needs the node asked after the claim was withdrawn there.
func (s Slot) AskAgain() Slot {
	s.Again = true
	return s
}

// Skip notes that a round does without the node.
func (s Slot) Skip() Slot {
	s.Standing = Unreachable
	return s
}

// OnReply ends an attempt. current is not set if the session on the node is no longer the
// one that the attempt was sent under: its answer means nothing then.
func (s Slot) OnReply(r Reply, token driver.Token, current bool) Slot {
	s.Call = Idle
	if !r.did() {
		s = s.notAsked()
	}
	if !current {
		s.Standing = Unreachable
		return s
	}
	return s.learn(r, token)
}

// notAsked notes that an attempt did nothing on the node. If that was the only call,
// nothing has to be withdrawn there: a node that is away would otherwise keep every claim
// of that time in the memory of the process.
func (s Slot) notAsked() Slot {
	if s.Asked--; s.Asked == 0 && s.Removal == Due && !s.Late && !s.Stray {
		s.Removal = NotDue
	}
	return s
}

// learn takes over what the node answered. Whatever it had before a data loss, this is
// what it has now.
func (s Slot) learn(r Reply, token driver.Token) Slot {
	if r.answered() {
		s.Late, s.Lost, s.Counted = false, 0, false
	} else if s.Standing == Granted {
		s.Late = true // it did not answer, and still has what it granted before
	}
	switch r {
	case ReplyGranted:
		s.Standing, s.Token = Granted, token
	case ReplyQueued:
		s.Standing = Queued
	case ReplyBusy:
		s.Standing = Refused
	case ReplyGrace, ReplyNotReady:
		s.Standing = Resting
	case ReplyAbsent:
		s.Standing = Denied
	default:
		s.Standing = Unreachable
		s.Late, s.Stray = s.Late || r == ReplyUnknown, s.Stray || r == ReplyUnknown
	}
	return s
}

// OnPush ends a wait for a push on a node where the claim is queued: with ReplyGranted, an
// error, or for no reason, and then the node is asked after a pause.
func (s Slot) OnPush(r Reply, token driver.Token) Slot {
	switch {
	case r == ReplyGranted:
		return s.learn(r, token)
	case r.answered():
		s.Standing = Refused
	default:
		s.Standing = Unreachable
	}
	return s
}

// Same reports whether a reply confirms the grant that the slot has. Another grant than
// the one that counted does not count.
func (s Slot) Same(r Reply, token driver.Token) bool { return r == ReplyGranted && token == s.Token }

// SessionLost notes that the session on the node ended, or, with reset, that the node lost
// its data. held reports whether the claim is held, and counted whether the node counts for
// it. A session that ended takes its claims along. After a reset the node may have kept any
// of them: OnReclaimed follows, and what had to go still has to.
func (s Slot) SessionLost(reset, held, counted bool) Slot {
	t := Slot{Call: s.Call, Try: s.Try, Asked: s.Asked, Reclaims: s.Reclaims, Removal: s.Removal.sessionLost(reset)}
	if !reset {
		return t
	}
	t.Late, t.Stray = s.Late, s.Stray
	if s.Standing == Granted {
		s.Lost, s.Counted = s.Token, s.Counted || counted
	}
	if held { // Lost is kept if the node was reset before it was put back there
		t.Lost, t.Counted = s.Lost, s.Counted
	}
	return t
}

// Suspend notes that the session was reopened after a data loss: the claim does not count
// until it was asked for again. It is the same when the claim is put back on a node that does not count yet.
func (s Slot) Suspend(counted bool) Slot {
	s.Counted = s.Counted || counted
	return s
}

// Regains reports whether the grant counts again as soon as the node does. A reclaim whose answer is not known may have
// found that the node has it no more.
func (s Slot) Regains() bool {
	return s.Counted && s.Holds() && !s.Busy() && !s.Late && s.Reclaims == 0
}

// Asks notes that the node may have something of the claim that no attempt put there.
func (s Slot) Asks() Slot {
	s.Asked++
	return s
}

// Reclaim begins a reclaim, and reports whether it shall be sent: the node is asked to put the claim back, whether it had it or
// not, but not if it must go from there. The answer to a withdrawal that the reclaim overtakes, or follows, is about the same try,
// and would have what was put back forgotten.
func (s Slot) Reclaim() (Slot, bool) {
	if s.Leaving() {
		return s, false
	}
	s.Reclaims++
	return s.Asks(), true
}

// ReclaimEnded ends a reclaim of one of the tries. If its outcome is unknown it may still
// arrive.
func (s Slot) ReclaimEnded(try uint16, unknown bool) Slot {
	s.Reclaims--
	s.Late, s.Stray = s.Late || unknown && try == s.Try, s.Stray || unknown && try == s.Try
	return s
}

// Reclaimed is the token to reclaim the claim with: the one that the node granted it with,
// or else the one that the claim won with.
func (s Slot) Reclaimed(won driver.Token) driver.Token {
	switch {
	case s.Lost > 0:
		return s.Lost
	case s.Standing == Granted:
		return s.Token
	}
	return won
}

// Share is what a node that has a claim again is worth for it.
type Share uint8

const (
	// NoShare: it does not count.
	NoShare Share = iota
	// LaterShare: it counts once enough other nodes do. It never had the claim before, so
	// another claim may win with what the node granted before it lost its data.
	LaterShare
	// FullShare: it counts.
	FullShare
)

// String returns the word in lower case.
func (s Share) String() string { return enum.String("share", s, "none", "later", "full") }

// OnReclaimed takes over whether the node has the claim again, and what it is worth: it
// counts with the token that the claim won with, or if it counted before the data loss.
func (s Slot) OnReclaimed(kept bool, won driver.Token, counted bool) (Slot, Share) {
	counted = s.Counted || counted
	token, had := s.Reclaimed(won), counted || s.Lost > 0 || s.Standing == Granted
	s.Lost, s.Counted = 0, false
	if !kept {
		if s.Call == Idle {
			s.Standing = Absent
		}
		return s, NoShare
	}
	s.Standing, s.Token = Granted, token
	switch {
	case token != won && !counted:
		return s, NoShare
	case !had:
		return s, LaterShare
	}
	return s, FullShare
}

// State is the slot as a vote. counts reports whether what the node grants counts at all.
func (s Slot) State(counts bool) State {
	switch {
	case s.Call != Idle:
		return Open
	case s.Holds() && counts:
		return Yes
	case s.Standing == Queued || s.Standing == Refused:
		return No
	case s.Standing == Resting:
		return Rest
	}
	return Out
}

// Holds reports whether the node has granted the claim and shall keep it.
func (s Slot) Holds() bool { return s.Standing == Granted && !s.Leaving() }

// Free reports whether the node has, and can get, nothing of the claim that has to be
// withdrawn. present reports whether the node may have anything of the session.
func (s Slot) Free(present bool) bool {
	return s.Call == Idle && !(present && (s.Leaving() || s.Late || s.Stray || s.Standing == Granted || s.Standing == Queued))
}
