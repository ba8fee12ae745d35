// SPDX-License-Identifier: Apache-2.0

package vote

import "github.com/fencelock/fencelock/internal/enum"

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
)

// String returns the word in lower case.
func (s NodeSession) String() string {
	return enum.String("node session", s, "closed", "current", "owing", "ended", "reset")
}

// Open reports whether calls can be made under the session.
func (s NodeSession) Open() bool { return s == Current || s == Owing }

// Present reports whether the node may have anything of the session.
func (s NodeSession) Present() bool { return s.Open() || s == Reset }

// Opening begins an Open. newID reports whether it must be under another id.
func (s NodeSession) Opening() (_ NodeSession, newID bool) {
	if s == Ended {
		return Closed, true
	}
	return s, false
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
