// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/fencelock/fencelock/store/quorum/internal/vote"

// renewAt lets a node answer what the first acquisition, granted, may ask it: to
// be joined, to be raised, to renew.
func (m *search) renewAt(s state, n int) {
	c := &s.att[0]
	mine := s.node[n].owner == 0
	if !has(c.session, n) && has(c.counts, n) {
		t := s
		d := &t.att[0]
		d.put(n, c.at(n).SessionLost(false, true, true))
		d.counts &^= 1 << n
		d.session |= 1 << n // it is opened again
		d.outdate(n)
		m.reach(t, action{"learns that its session has ended on", 0, int8(n), 0})
	}
	if c.joined == 0 && !has(c.counts, n) && (mine || s.node[n].owner == none && !m.resting(&s, n)) {
		t := s
		m.joinAt(&t, n)
		m.reach(t, action{"joins", 0, int8(n), t.node[n].token})
	}
	if c.joined != 0 && c.above > c.token && has(c.counts, n) && !has(c.raised, n) && mine && s.node[n].token == c.token {
		t := s
		m.raiseAt(&t, n)
		m.reach(t, action{"raises", 0, int8(n), t.node[n].ctr})
	}
	if c.renew == flying && !has(c.kept, n) && has(c.session, n) {
		t := s
		t.att[0].kept |= 1 << n
		m.reach(t, action{"renewal is kept by", 0, int8(n), 0})
	}
}

// renewed counts a renewal: the nodes of the claim, not of the session (R9).
func (m *search) renewed(c *attempt) bool {
	groups := []vote.Group{{Nodes: vote.Set(c.counts), Need: m.majority(0)}}
	if !m.Rules[9] {
		groups = nil
	}
	return vote.Renew(m.Nodes, groups, vote.Set(c.kept), 0) == vote.Renewed
}

// joinAt puts the record on a node that lacks it. It counts at once if the node
// granted with the token itself: then it never gave out a higher one (R8).
func (m *search) joinAt(s *state, n int) {
	c, nd := &s.att[0], &s.node[n]
	if nd.owner == none {
		nd.ctr = max(nd.ctr+1, c.token)
		nd.owner, nd.token = 0, nd.ctr
	}
	c.joined, c.above = int8(n)+1, nd.token
	c.session |= 1 << n
	if v := c.at(n); v.Busy() { // it is not waited for any longer, and may still arrive
		c.put(n, v.OnReply(vote.ReplyUnknown, 0, true))
	}
	c.askAt(n)
	c.repliedAt(n, nd.token)
	if nd.token == c.token || !m.Rules[8] {
		c.counts |= 1 << n
	}
}

// raiseAt raises the counter of a node that counts and still has the record. When
// enough are raised above what the joined node granted with, that one counts.
func (m *search) raiseAt(s *state, n int) {
	c := &s.att[0]
	s.node[n].ctr = max(s.node[n].ctr, c.above)
	c.raised |= 1 << n
	if count(c.raised) >= m.majority(0) {
		c.counts |= 1 << (c.joined - 1)
	}
}

// renewal begins a renewal, and ends it when enough nodes have kept it.
func (m *search) renewal(s state) {
	c := &s.att[0]
	switch {
	case c.renew == unsent:
		c.renew = flying
		if s.att[1].token > 0 {
			c.rbefore = 1 << 1
		}
		m.reach(s, action{"renewal begins", 0, none, 0})
	case c.renew == flying && m.renewed(c):
		c.renew = answered
		a := action{"is renewed", 0, none, c.token}
		m.reach(s, a)
		if has(c.rbefore, 1) && s.att[1].token > c.token {
			m.wrong(a, "c0 with token %d was renewed after c1 had been granted with %d", c.token, s.att[1].token)
		}
	}
}
