// SPDX-License-Identifier: Apache-2.0

package vote

import (
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/enum"
)

// Removal is how far a claim has been taken back on a node.
//
//	        Leave, Yield       Withdraw        OnWithdrawn
//	NotDue ──────────────▶ Due ────────▶ Sent ──────────────────▶ Done, or Kept: the lock
//	   ▲                                 │  │                     stays taken there
//	   │                 Withdraw        │  └─ error ──▶ NotRemoved ── Withdraw ─▶ Sent
//	   │            ┌──────────────▶ Resent ─────────────▶ Done | Kept
//	   │            │                    │
//	   │        Unanswered ◀── no answer ┘ of Sent too; a later one finds nothing if
//	   │                                   the one without an answer was executed
//	   │
//	   └── SessionLost: nothing is left to withdraw. A call in flight is Moot, whatever
//	       its answer is. After a reset everything is Due or Sent again.
type Removal uint8

const (
	// NotDue: the claim may stay.
	NotDue Removal = iota
	// Due: it must go, and no withdrawal was sent.
	Due
	// Sent: the withdrawal is in flight.
	Sent
	// Resent: it is in flight, and an earlier one was perhaps executed.
	Resent
	// Moot: it is in flight, and the session has ended on the node since.
	Moot
	// NotRemoved: the node did not do it. It is repeated when the node is repaired.
	NotRemoved
	// Unanswered: it was perhaps executed. It is repeated, too.
	Unanswered
	// Done: the node has nothing of the claim.
	Done
	// Kept: the node keeps the lock taken, as the withdrawal asked for.
	Kept
)

// String returns the word in lower case.
func (r Removal) String() string {
	return enum.String("removal", r, "not due", "due", "sent", "resent", "moot", "not removed", "unanswered", "done", "kept")
}

// sessionLost is the removal after the session on the node was lost.
func (r Removal) sessionLost(reset bool) Removal {
	switch r {
	case Sent, Resent:
		if reset {
			return Sent
		}
		return Moot
	case Moot:
		return Moot
	case Due, NotRemoved, Unanswered:
		if reset {
			return Due
		}
	}
	return NotDue
}

// Withdrawn is how a withdrawal on a node ended.
type Withdrawn uint8

const (
	// WithdrawnOK: the node did it.
	WithdrawnOK Withdrawn = iota
	// WithdrawnEnded: the session has ended there, and the claim with it.
	WithdrawnEnded
	// WithdrawnFailed: the node did not do it.
	WithdrawnFailed
	// WithdrawnUnknown: the node may have done it.
	WithdrawnUnknown
)

// Leaving reports whether the claim must go from the node and has not gone.
func (s Slot) Leaving() bool {
	switch s.Removal {
	case Due, Sent, Resent, NotRemoved, Unanswered:
		return true
	}
	return false
}

// Tombstone reports whether the withdrawal must leave a tombstone, because a call may arrive
// at the node after it.
func (s Slot) Tombstone() bool { return s.Late || s.Stray || s.Reclaims > 0 }

// Leave makes the claim go from the node because its holder or waiter withdraws it.
// present reports whether the node may have anything of the session. While an attempt is in
// flight the withdrawal waits for it.
func (s Slot) Leave(present bool) Slot {
	switch s.Call {
	case Attempting:
		s.Removal = Due
	case Idle:
		s.Found, s.Had = driver.WasAbsent, s.Standing == Granted
		if s.Removal = NotDue; s.Asked > 0 && present {
			s.Removal = Due
		}
	}
	return s
}

// Yield makes a claim that did not win go from a node that granted it, or may have. Where
// it is queued it stays; stays reports whether it may be queued.
func (s Slot) Yield(stays bool) Slot {
	if s.Standing == Granted || (s.Late || s.Stray) && !stays {
		return s.due()
	}
	return s
}

// Sweep makes a claim go from a node that may have granted it without our knowing.
func (s Slot) Sweep() Slot {
	if s.Late && s.Call == Idle {
		return s.due()
	}
	return s
}

func (s Slot) due() Slot {
	switch s.Removal {
	case NotDue, Done, Kept:
		s.Removal = Due
	}
	return s
}

// Withdraw begins a withdrawal that is due, and reports whether it shall be sent: not while
// a call is in flight, and not without a session. What the node had ended with the session,
// unless the node lost its data.
func (s Slot) Withdraw(at NodeSession) (Slot, bool) {
	switch {
	case !s.Leaving() || s.Call != Idle:
		return s, false
	case at == Reset:
		return s, false
	case !at.Open():
		s.Removal, s.Late, s.Stray, s.Standing = NotDue, false, false, Absent
		return s, false
	case s.Removal == Unanswered:
		s.Removal = Resent
	default:
		s.Removal = Sent
	}
	s.Call = Withdrawing
	return s, true
}

// OnWithdrawn ends a withdrawal. keep is set if it asked the node to keep the lock taken:
// one that finds nothing was executed before if it was sent before.
func (s Slot) OnWithdrawn(w Withdrawn, found driver.Removed, keep bool) Slot {
	sent := s.Removal
	s.Call = Idle
	switch w {
	case WithdrawnOK:
		s.Removal = Done
		if keep && (found == driver.WasGranted || found == driver.WasAbsent && s.Had && sent == Resent) {
			s.Removal = Kept
		}
		s.Standing, s.Token, s.Late, s.Stray, s.Found = Absent, 0, false, false, found
		s.Lost, s.Counted = 0, false
		s.Try++
		s.Asked = 0
	case WithdrawnEnded:
		s.Removal, s.Standing, s.Late, s.Stray = NotDue, Absent, false, false
	default:
		switch {
		case sent == Moot:
			s.Removal = NotDue
		case w == WithdrawnUnknown || sent == Resent:
			s.Removal = Unanswered
		default:
			s.Removal = NotRemoved
		}
	}
	return s
}
