// SPDX-License-Identifier: Apache-2.0

package vote

import (
	"github.com/fencelock/fencelock/internal/enum"
)

// NodeSession is the session on one node.
//
//	          Opened                 Lost(reset)
//	Closed ───────────▶ Current ───────────────────▶ Reset
//	  ▲                  │  ▲                         │
//	  │ Opening          │  │ PutBack                 │ Opened, under the same id:
//	  │                  │  │                         ▼ claims are reclaimed
//	Ended ◀── Lost ──────┘  └─────────────────────── Owing ── Lost ──▶ Ended | Reset
//
//	Ended: it is opened under another id, so what was sent before is rejected.
//
//	Closed ── OpenUnanswered ──▶ Missed: it is opened under another id, too. An Open that arrives when the node has ended
//	the session would begin it again, without its claims, and a keep-alive would not find the difference.
type NodeSession uint8

const (
	// Closed: it is not open, and the node has nothing of it.
	Closed NodeSession = iota
	// Current: it is open, and the node has what it granted.
	Current
	// Owing: it is open again after a data loss, and the node must be asked to put back what it had.
	Owing
	// Ended: the node ended it, and all of its claims.
	Ended
	// Reset: the node lost its data, and perhaps not all of it.
	Reset
	// Missed: an Open went unanswered and may still arrive. Nothing else was sent under its id.
	Missed
)

// String returns the word in lower case.
func (s NodeSession) String() string {
	return enum.String("node session", s, "closed", "current", "owing", "ended", "reset", "missed")
}

// Open reports whether calls can be made under the session.
func (s NodeSession) Open() bool { return s == Current || s == Owing }

// Present reports whether the node may have anything of the session.
func (s NodeSession) Present() bool { return s.Open() || s == Reset }

// Opening begins an Open. newID reports whether it must be under another id.
func (s NodeSession) Opening() (_ NodeSession, newID bool) {
	if s == Ended || s == Missed {
		return Closed, true
	}
	return s, false
}

// OpenUnanswered notes that an Open may still arrive. After a data loss the id stays: the node may have claims of it.
func (s NodeSession) OpenUnanswered() NodeSession {
	if s == Closed {
		return Missed
	}
	return s
}

// Opened ends an Open that succeeded.
func (s NodeSession) Opened() NodeSession {
	if s == Reset {
		return Owing
	}
	return Current
}

// Lost notes that the node ended the session, or, with reset, that it lost its data.
func (s NodeSession) Lost(reset bool) NodeSession {
	if reset {
		return Reset
	}
	return Ended
}

// PutBack notes that the node was asked for all that it had.
func (s NodeSession) PutBack() NodeSession {
	if s == Owing {
		return Current
	}
	return s
}

// Group is all claims that are held on the same nodes and need as many of them.
type Group struct {
	Nodes Set
	Need  int
}

// Renewal is the result of a round of keep-alives.
type Renewal uint8

const (
	// Unsettled: too early to say.
	Unsettled Renewal = iota
	// Renewed: a majority kept the session, and enough of the nodes of every claim
	// did.
	Renewed
	// Short: a majority kept the session or still may, but some claim cannot have
	// enough nodes any more.
	Short
	// Failed: a majority cannot be had.
	Failed
)

// String returns the word in lower case.
func (r Renewal) String() string {
	return enum.String("renewal", r, "unsettled", "renewed", "short", "failed")
}

// Renew counts a round of keep-alives: kept are the nodes that answered that the
// session lives, open those that have not answered. It is not enough that a
// majority keeps the session: a claim that is on nodes a, b and c of five is not
// kept by c, d and e.
func Renew(n int, groups []Group, kept, open Set) Renewal {
	all := kept | open
	if all.Len() < Majority(n) {
		return Failed
	}
	decided := kept.Len() >= Majority(n)
	for _, g := range groups {
		if (g.Nodes & all).Len() < g.Need {
			return Short
		}
		decided = decided && (g.Nodes&kept).Len() >= g.Need
	}
	if decided {
		return Renewed
	}
	return Unsettled
}
