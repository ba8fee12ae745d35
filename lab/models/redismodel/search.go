// SPDX-License-Identifier: Apache-2.0

package redismodel

import (
	"fmt"

	"github.com/fencelock/fencelock/internal/explore"
)

// Result is what a search found.
type Result = explore.Result

// search is a search of a scene under some rules.
type search struct {
	Scene
	rules Rules
	all   explore.Search[state, action]
	// Of the state being expanded.
	found string
	last  action
	stop  uint8 // after which part of a handoff the script that is executed ends, 0 if it does not
	quiet bool  // the continuation of a quiet state is run, nothing is reached
}

func (m *search) on(r Rule) bool { return m.rules[r] }

func (m *search) reader(i int) bool { return m.Reader && i == m.Clients-1 }

// Search tries everything that can happen in a scene under some rules, the shortest
// histories first, until it finds a violation or has seen all, or limit states.
func Search(scene Scene, rules Rules, limit int) Result {
	m := &search{Scene: scene, rules: rules}
	m.all = explore.Search[state, action]{Expand: m.expand,
		Pack: func(s *state, to []byte) []byte {
			c := coder{buf: to}
			c.state(s)
			return c.buf
		},
		Unpack: func(s *state, from []byte) {
			c := coder{buf: from, read: true}
			c.state(s)
		}}
	return m.all.Run([]state{m.first()}, limit)
}

// first is the state in which all sessions are open and the lock is free.
func (m *search) first() (s state) {
	v := &s.srv
	s.runs, s.incs = 1, 1
	v.run, v.mrun, v.inc = 1, 1, 1
	if m.Tickets > 0 {
		m.refill(&s)
		for i := m.Tickets; i < maxReady; i++ {
			v.take()
		}
	}
	for i := range m.Clients {
		s.generations[i] = 1
		v.sess[i] = session{st: alive, generation: 1, reclaimed: 1}
		s.cl[i] = client{generation: 1, inc: 1, run: 1, seen: 1, trust: 1, fast: 1}
		m.opened(&s, i)
	}
	return s
}

// reach notes a state that can be reached.
func (m *search) reach(s *state, a action) {
	if m.found != "" && m.last == (action{}) {
		m.last = a
	}
	if !m.quiet {
		m.all.Reach(s, a)
	}
}

// wrong notes a violation in the step that is being taken.
func (m *search) wrong(format string, args ...any) {
	if m.found == "" && !m.quiet {
		m.found = fmt.Sprintf(format, args...)
	}
}

// expand reaches everything that one step leads to.
func (m *search) expand(s *state) {
	if m.liveness(s); m.found == "" {
		m.faults(s)
		for i := range m.Clients {
			m.steps(s, i)
		}
	}
	if m.found != "" {
		m.all.Wrong(m.last, m.found)
	}
}

// action is a step in a form that costs nothing until it is printed.
type action struct{ verb, who, seq, val uint8 }
