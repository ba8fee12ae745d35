// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/quorum/internal/vote"
)

// slot is a vote.Slot in few bytes: a search keeps millions.
type slot struct {
	standing vote.Standing
	removal  vote.Removal
	call     vote.Call
	token    int8
	lost     int8
	counted  bool
	late     bool
	again    bool
	had      bool
	found    driver.Removed
	try      int8
	asked    int8
	reclaims int8
}

// at returns the claim on a node.
func (c *attempt) at(n int) vote.Slot {
	p := c.slot[n]
	return vote.Slot{
		Standing: p.standing, Removal: p.removal, Call: p.call, Token: driver.Token(p.token), Lost: driver.Token(p.lost),
		Counted: p.counted, Late: p.late, Again: p.again, Had: p.had, Found: p.found, Try: uint16(p.try), Asked: int(p.asked),
		Reclaims: int(p.reclaims),
	}
}

// put sets the claim on a node.
func (c *attempt) put(n int, s vote.Slot) {
	c.slot[n] = slot{
		s.Standing, s.Removal, s.Call, int8(s.Token), int8(s.Lost),
		s.Counted, s.Late, s.Again, s.Had, s.Found, int8(s.Try), int8(s.Asked),
		int8(s.Reclaims),
	}
}

// askAt begins an attempt on a node.
func (c *attempt) askAt(n int) {
	s, _ := c.at(n).Ask()
	c.put(n, s)
	c.send(n, callMessage)
}

// repliedAt ends an attempt on a node: granted with a token, or not if it is 0. What
// must go then is withdrawn.
func (c *attempt) repliedAt(n int, token int8) {
	r := vote.ReplyBusy
	if token > 0 {
		r = vote.ReplyGranted
	}
	c.put(n, c.at(n).OnReply(r, driver.Token(token), c.current(n, callMessage)))
	c.withdrawAt(n)
}

// withdrawAt sends a withdrawal that is due.
func (c *attempt) withdrawAt(n int) {
	s, send := c.at(n).Withdraw(c.link[n])
	if c.put(n, s); send {
		c.free[n] = flying
		c.send(n, callMessage)
		if c.re.tomb &^= 1 << n; s.Tombstone() {
			c.re.tomb |= 1 << n
		}
	}
}

// withdrawnAt ends a withdrawal. One under an earlier session on the node has nothing left
// to do, unless the node lost its data and was not opened again.
func (c *attempt) withdrawnAt(n int, w vote.Withdrawn, found driver.Removed) {
	if has(c.re.stale[callMessage], n) && c.link[n] != vote.Reset {
		w = vote.WithdrawnEnded
	}
	c.put(n, c.at(n).OnWithdrawn(w, found, false))
}

// rejected lets a node reject the call of a session that it does not know.
func (m *search) rejected(s state, n int) {
	c := &s.att[0]
	m.lose(c, n)
	switch {
	case c.free[n] == flying:
		c.free[n] = answered
		w := vote.WithdrawnFailed
		if has(c.re.ended, n) {
			w = vote.WithdrawnEnded
		}
		c.withdrawnAt(n, w, driver.WasAbsent)
	default:
		c.ask[n], c.lift[n] = answered, unsent
		c.put(n, c.at(n).OnReply(vote.ReplyRejected, 0, false))
		c.withdrawAt(n)
	}
	m.reach(s, action{"call is rejected by", 0, int8(n), 0})
}

// voteAt is the vote of a node.
func (c *attempt) voteAt(n int) vote.Vote {
	s := c.at(n)
	return vote.Vote{State: s.State(true), Token: s.Token}
}

// plain drops what matters only for withdrawals: where none is sent, states that differ by
// that alone are one.
func (s *state) plain() {
	for i := range s.att {
		for n := range s.att[i].slot {
			p := &s.att[i].slot[n]
			p.asked, p.reclaims, p.late = 0, 0, false
		}
	}
}
