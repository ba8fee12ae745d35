// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"

	"github.com/fencelock/fencelock/internal/explore"
	"github.com/fencelock/fencelock/store/quorum/internal/vote"
)

// Result is what a search found.
type Result = explore.Result

// search is a search of a scene under some rules, or a walk through it.
type search struct {
	Scene
	Rules
	all *explore.Search[state, action] // nil in a walk
	// Of a walk: what the last state leads to, by which steps.
	queue []state
	acts  []action
	found string
	last  action // the step that led to the violation
}

// action is a step in a form that costs nothing until it is printed.
type action struct {
	verb string
	who  int8 // -1: of no acquisition
	node int8 // -1: none
	val  int8
}

func (a action) String() string {
	s := a.verb
	if a.who >= 0 {
		s = fmt.Sprintf("c%d %s", a.who, a.verb)
	}
	if a.node >= 0 {
		s += fmt.Sprintf(" n%d", a.node)
	}
	if a.val != 0 {
		s += fmt.Sprintf(" -> %d", a.val)
	}
	return s
}

// Search tries everything that can happen in a scene under some rules, the
// shortest histories first, until it finds a violation or has seen all, or limit
// states.
func Search(scene Scene, rules Rules, limit int) Result {
	m := &search{Scene: scene, Rules: rules}
	m.all = &explore.Search[state, action]{Expand: func(s *state) { m.expand(*s) }}
	return m.all.Run(m.starts(), limit)
}

// reach notes a state that can be reached.
func (m *search) reach(s state, a action) {
	if m.Timed {
		s.plain()
	}
	if m.all == nil {
		m.queue, m.acts = append(m.queue, s), append(m.acts, a)
		return
	}
	m.all.Reach(&s, a)
}

// wrong notes a violation in the state that a step leads to, or in the one being expanded if there is no step.
func (m *search) wrong(a action, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	if m.all != nil {
		m.all.Wrong(a, what)
	} else if m.found == "" {
		m.found, m.last = what, a
	}
}

// expand reaches everything that one step leads to.
func (m *search) expand(s state) {
	m.faults(s)
	for i := range m.attempts() {
		c := &s.att[i]
		if c.phase == idle {
			m.begin(s, i)
			continue
		}
		for n := range m.Nodes {
			if m.knows(i, n) {
				m.arrive(s, i, n)
			}
		}
		m.choose(s, i)
	}
	m.leftovers(s)
}

func (m *search) begin(s state, i int) {
	if i > 0 && s.att[i-1].phase == idle {
		return // they are alike: begin in order
	}
	c := &s.att[i]
	c.phase = asking
	for j := range m.attempts() {
		if j != i && s.att[j].phase >= granted && s.att[j].token > 0 {
			c.before |= 1 << j
		}
	}
	for n := range m.Nodes {
		if m.knows(i, n) {
			c.ask[n] = flying
			c.askAt(n)
			if m.Dup && i == 0 {
				c.dup |= 1 << n
			}
		}
	}
	m.reach(s, action{"begins", int8(i), none, 0})
}

// faults are steps that no process takes.
func (m *search) faults(s state) {
	for n := range m.Nodes {
		nd := s.node[n]
		if m.Vanish && nd.owner != none {
			t := s
			t.att[nd.owner].session &^= 1 << n
			if m.Bound && m.Rules[10] {
				t.att[nd.owner].stale |= 1 << n
			}
			t.node[n].owner, t.node[n].token = none, 0
			m.reach(t, action{"record vanishes", none, int8(n), 0})
		}
		if s.losses < m.Losses && (nd.ctr > 0 || m.Reclaim) {
			t := m.loseData(s, n)
			m.reach(t, action{"loses its data", none, int8(n), 0})
			if m.Reclaim && m.Release && nd.owner == 0 { // or only the last second
				t.node[n].owner, t.node[n].token, t.node[n].old = 0, nd.token, true
				m.reach(t, action{"loses some data", none, int8(n), 0})
			}
		}
		if m.Reclaim {
			m.expire(s, n)
		}
	}
}

// loseData lets a node lose its data. It begins above every token there is: that
// is what the seed from its clock is for, while clocks agree (R6).
func (m *search) loseData(s state, n int) state {
	s.losses++
	top := int8(0)
	var live uint8
	for k := range m.Nodes {
		top = max(top, s.node[k].ctr)
	}
	for i := range m.attempts() {
		c := &s.att[i]
		c.session &^= 1 << n
		c.re.rests &^= 1 << n
		top = max(top, c.token, c.floor)
		if c.phase != idle && c.phase != over {
			live |= 1 << i
		}
	}
	s.node[n] = node{owner: none, cfg: s.node[n].cfg, grace: m.Reclaim}
	if m.Rules[6] {
		s.node[n].ctr = top
		if m.Rules[5] {
			s.node[n].rest = live
		}
	}
	return s
}

// leftovers checks that nothing stays behind when all is quiet.
func (m *search) leftovers(s state) {
	if !m.Release {
		return
	}
	for i := range m.attempts() {
		c := s.att[i]
		if c.phase != over {
			return
		}
		for n := range m.Nodes {
			if c.ask[n] == flying || c.ask[n] == dropped || c.free[n] == flying || c.re.all[n] == flying || c.re.all[n] == dropped || c.re.back[n] != unsent ||
				c.link[n] == vote.Owing || !c.link[n].Open() || !c.alive(n) || c.at(n).Busy() || c.at(n).Leaving() || c.at(n).Late {
				return
			}
		}
	}
	for n := range m.Nodes {
		if o := s.node[n].owner; o != none {
			m.wrong(action{}, "all is quiet, and n%d still keeps a record of c%d", n, o)
		}
	}
}
