// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/quorum/internal/vote"
)

// grantAt lets a node answer an attempt: 0 and unchanged if it refuses.
func (m *search) grantAt(s *state, i, n int, floor int8) int8 {
	nd := &s.node[n]
	if nd.owner == int8(i) {
		return nd.token
	}
	if has(s.att[i].stale, n) || i == 0 && nd.tomb || m.resting(s, n) || nd.owner != none || nd.cfg != 0 && nd.cfg != int8(i)+1 {
		return 0
	}
	nd.ctr = max(nd.ctr+1, floor)
	nd.owner, nd.token, nd.grace = int8(i), nd.ctr, false
	if m.Bound && !m.Rules[10] {
		s.att[i].session |= 1 << n // the session is opened again by what is late
	}
	return nd.token
}

// resting reports whether a node still waits for those from before it lost its data.
func (m *search) resting(s *state, n int) bool {
	for i := range m.attempts() {
		if has(s.node[n].rest, i) && s.att[i].phase != over {
			return true
		}
	}
	return false
}

// floor is the token that an attempt asks for. Where tokens are not what is searched, nodes
// agree at once.
func (m *search) floor(i int) int8 {
	if m.Reclaim && i > 0 {
		return 10
	}
	return 0
}

// arrive lets whatever is on its way from an attempt to a node arrive.
func (m *search) arrive(s state, i, n int) {
	c := &s.att[i]
	if m.Reclaim && i == 0 {
		m.sessionAt(s, n)
		if !c.accepts(n, callMessage) && (c.ask[n] == flying || c.lift[n] == flying || c.free[n] == flying) {
			m.rejected(s, n)
			return
		}
	}
	if c.ask[n] == flying || c.ask[n] == dropped {
		t := s
		token := m.grantAt(&t, i, n, m.floor(i))
		if t.att[i].ask[n] == flying && t.att[i].at(n).Call == vote.Attempting {
			t.att[i].repliedAt(n, token)
		}
		t.att[i].ask[n] = answered
		m.reach(t, action{"attempt arrives at", int8(i), int8(n), token})
	} else if has(c.dup, n) && c.ask[n] == answered {
		t := s
		t.att[i].dup = 0
		token := m.grantAt(&t, i, n, 0)
		m.reach(t, action{"attempt arrives again at", int8(i), int8(n), token})
	}
	if c.lift[n] == flying {
		m.liftAt(s, i, n)
	}
	if c.free[n] == flying {
		t := s
		t.att[i].free[n] = answered
		t.att[i].withdrawnAt(n, vote.WithdrawnOK, m.removeAt(&t, i, n))
		m.reach(t, action{"release arrives at", int8(i), int8(n), 0})
	}
	if m.Renew && i == 0 && c.phase == granted {
		m.renewAt(s, n)
	}
}

// liftAt executes an attempt with a floor, and Lift, on a node.
func (m *search) liftAt(s state, i, n int) {
	c := &s.att[i]
	c.lift[n] = unsent
	token := m.grantAt(&s, i, n, c.floor)
	nd := &s.node[n]
	if token != 0 && token < c.floor {
		nd.ctr = max(nd.ctr+1, c.floor)
		nd.token = nd.ctr
		token = nd.token
	}
	if c.at(n).Busy() {
		c.repliedAt(n, token)
	}
	if v := c.voteAt(n); c.phase == lifting && v.State == vote.Yes && (v.Token == driver.Token(c.floor) || !m.Rules[2]) {
		c.counts |= 1 << n
	}
	m.reach(s, action{"lift arrives at", int8(i), int8(n), token})
}

// choose is what an acquisition decides by itself.
func (m *search) choose(s state, i int) {
	c := s.att[i]
	need := m.majority(i)
	switch c.phase {
	case asking:
		yes := uint8(0)
		for n := range m.Nodes {
			if c.voteAt(n).State == vote.Yes {
				yes |= 1 << n
			}
		}
		// Answers come in any order, so it may know any of them when it decides.
		for known := yes; known > 0; known = (known - 1) & yes {
			if count(known) >= need {
				m.decide(s, i, known)
			}
		}
		if m.Release {
			m.finish(s, i, "gives up")
		}
	case lifting:
		if count(c.counts) >= need {
			m.win(s, i, c.floor, c.counts)
		}
		if m.Release {
			m.finish(s, i, "gives up")
		}
	case granted:
		if m.Release || m.Timed {
			m.finish(s, i, "releases")
		}
		if m.Renew && i == 0 {
			m.renewal(s)
		}
		if m.Reclaim && i == 0 {
			if m.Timed {
				m.renewTimed(s)
			}
			m.reopen(s)
		}
	case over:
		for n := range m.Nodes { // what could not be withdrawn, when the node is repaired
			v := c.at(n).Sweep()
			if t := s; i == 0 && m.Reclaim && v.Leaving() && !v.Busy() && c.link[n] != vote.Reset {
				t.att[i].put(n, v)
				t.att[i].withdrawAt(n)
				m.reach(t, action{"withdraws again", int8(i), int8(n), 0})
			}
		}
	}
}

// decide counts the votes that are known.
func (m *search) decide(s state, i int, known uint8) {
	votes := make([]vote.Vote, m.Nodes)
	top := int8(0)
	for n := range votes {
		votes[n].State = vote.Out
		if has(known, n) {
			votes[n] = s.att[i].voteAt(n)
			top = max(top, int8(votes[n].Token))
		}
	}
	if !m.Rules[1] {
		m.win(s, i, top, known)
		return
	}
	v := vote.Decide(m.majority(i), votes)
	switch v.Kind {
	case vote.Won:
		m.win(s, i, int8(v.Token), uint8(v.Nodes))
	case vote.Split:
		c := &s.att[i]
		c.phase, c.floor = lifting, int8(v.Token)
		for n := range m.Nodes {
			if has(known, n) && votes[n].Token < v.Token {
				c.lift[n] = flying
				c.askAt(n)
			} else if has(known, n) {
				c.counts |= 1 << n
			}
		}
		m.reach(s, action{"must lift to", int8(i), none, c.floor})
	}
}

// win reports a grant, and checks it against the others.
func (m *search) win(s state, i int, token int8, counts uint8) {
	c := &s.att[i]
	c.phase, c.token, c.counts = granted, token, counts
	a := action{"is granted", int8(i), none, token}
	m.reach(s, a)
	for j := range m.attempts() {
		o := s.att[j]
		if j == i || o.token == 0 {
			continue
		}
		if o.token == token {
			m.wrong(a, "c%d and c%d were both granted with token %d", j, i, token)
		}
		if has(c.before, j) && o.token >= token {
			m.wrong(a, "c%d was granted with %d before c%d began, which got %d", j, o.token, i, token)
		}
		if m.Timed && o.phase == granted {
			m.wrong(a, "c%d and c%d hold at once", j, i)
		}
	}
}

// finish ends an acquisition: its release goes where its attempts went.
func (m *search) finish(s state, i int, verb string) {
	c := &s.att[i]
	c.phase = over
	if m.Timed { // how a release travels is the matter of another scene
		*c = attempt{phase: over, token: c.token, before: c.before}
		for n := range m.Nodes {
			if s.node[n].owner == int8(i) {
				s.node[n].owner, s.node[n].token = none, 0
			}
		}
		m.reach(s, action{verb, int8(i), none, 0})
		return
	}
	for n := range m.Nodes {
		v := c.at(n).Leave(c.link[n].Present())
		if c.ask[n] == flying && !m.Rules[3] {
			v.Call = vote.Idle // as if it did not wait
		}
		if c.ask[n] == flying && !m.Rules[4] {
			c.ask[n], v = dropped, vote.Slot{}
		}
		c.put(n, v)
		c.withdrawAt(n)
	}
	m.reach(s, action{verb, int8(i), none, 0})
}

// removeAt lets a node execute a withdrawal.
func (m *search) removeAt(s *state, i, n int) driver.Removed {
	s.node[n].tomb = s.node[n].tomb || m.Rules[15] && has(s.att[i].re.tomb, n)
	if s.node[n].owner != int8(i) {
		return driver.WasAbsent
	}
	s.node[n].owner, s.node[n].token = none, 0
	return driver.WasGranted
}
