// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/quorum/internal/vote"
)

// grantAt lets a node answer an attempt: 0 and unchanged if it says no.
func (m *search) grantAt(s *state, i, n int, floor int8) int8 {
	nd := &s.node[n]
	if nd.owner == int8(i) {
		return nd.token
	}
	if has(s.att[i].stale, n) || m.resting(s, n) || nd.owner != nobody || nd.cfg != 0 && nd.cfg != int8(i)+1 {
		return 0
	}
	nd.ctr = max(nd.ctr+1, floor)
	nd.owner, nd.token = int8(i), nd.ctr
	return nd.token
}

// resting says whether a node still waits for those from before it forgot.
func (m *search) resting(s *state, n int) bool {
	for i := range m.attempts() {
		if has(s.node[n].rest, i) && s.att[i].phase != over {
			return true
		}
	}
	return false
}

// arrive lets whatever is on its way from an attempt to a node arrive.
func (m *search) arrive(s state, i, n int) {
	c := &s.att[i]
	if c.ask[n] == flying || c.ask[n] == dropped {
		t := s
		token := m.grantAt(&t, i, n, 0)
		if t.att[i].ask[n] == flying {
			t.att[i].vote[n] = token
			if token == 0 {
				t.att[i].vote[n] = -1
			}
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
		if t.node[n].owner == int8(i) {
			t.node[n].owner, t.node[n].token = nobody, 0
		}
		m.reach(t, action{"release arrives at", int8(i), int8(n), 0})
	}
	if m.Renew && i == 0 && c.phase == granted {
		m.renewAt(s, n)
	}
}

// liftAt executes an attempt with a floor, and Lift, on a node.
func (m *search) liftAt(s state, i, n int) {
	c := &s.att[i]
	c.lift[n] = answered
	token := m.grantAt(&s, i, n, c.floor)
	nd := &s.node[n]
	if token != 0 && token < c.floor {
		nd.ctr = max(nd.ctr+1, c.floor)
		nd.token = nd.ctr
		token = nd.token
	}
	if token == c.floor || token != 0 && !m.Rules[2] {
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
			if c.vote[n] > 0 {
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
	case over:
		m.settle(s, i)
	}
}

// decide counts the votes that are known.
func (m *search) decide(s state, i int, known uint8) {
	votes := make([]vote.Vote, m.Nodes)
	top := int8(0)
	for n := range votes {
		votes[n].State = vote.Out
		if has(known, n) {
			votes[n] = vote.Vote{State: vote.Yes, Token: driver.Token(s.att[i].vote[n])}
			top = max(top, s.att[i].vote[n])
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
			if has(known, n) && c.vote[n] < c.floor {
				c.lift[n] = flying
			} else if has(known, n) {
				c.counts |= 1 << n
			}
		}
		m.reach(s, action{"must lift to", int8(i), nobody, c.floor})
	}
}

// win reports a grant, and checks it against the others.
func (m *search) win(s state, i int, token int8, counts uint8) {
	c := &s.att[i]
	c.phase, c.token, c.counts = granted, token, counts
	m.reach(s, action{"is granted", int8(i), nobody, token})
	for j := range m.attempts() {
		o := s.att[j]
		if j == i || o.token == 0 {
			continue
		}
		if o.token == token {
			m.wrong(s, "c%d and c%d were both granted with token %d", j, i, token)
		}
		if has(c.before, j) && o.token >= token {
			m.wrong(s, "c%d was granted with %d before c%d began, which got %d", j, o.token, i, token)
		}
		if m.Timed && o.phase == granted {
			m.wrong(s, "c%d and c%d hold at once", j, i)
		}
	}
}

// finish ends an acquisition: its release goes where its attempts went.
func (m *search) finish(s state, i int, verb string) {
	c := &s.att[i]
	c.phase = over
	if m.Timed { // how a release travels is the matter of another scene
		for n := range m.Nodes {
			c.ask[n], c.lift[n] = unsent, unsent
			if s.node[n].owner == int8(i) {
				s.node[n].owner, s.node[n].token = nobody, 0
			}
		}
		m.reach(s, action{verb, int8(i), nobody, 0})
		return
	}
	for n := range m.Nodes {
		switch {
		case c.ask[n] == answered && c.lift[n] != flying || c.ask[n] == flying && !m.Rules[3]:
			c.free[n] = flying
		}
		if c.ask[n] == flying && !m.Rules[4] {
			c.ask[n] = dropped
		}
	}
	m.reach(s, action{verb, int8(i), nobody, 0})
}

// settle releases what was still under way when it finished.
func (m *search) settle(s state, i int) {
	for n := range m.Nodes {
		c := s.att[i]
		if c.ask[n] == answered && c.lift[n] != flying && c.free[n] == unsent && c.vote[n] != 0 {
			t := s
			t.att[i].free[n] = flying
			m.reach(t, action{"settles", int8(i), int8(n), 0})
		}
	}
}
