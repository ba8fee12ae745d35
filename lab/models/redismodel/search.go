// SPDX-License-Identifier: Apache-2.0

package redismodel

import (
	"fmt"
	"hash/maphash"
)

// Result is what a search found.
type Result struct {
	// States is how many different states were seen.
	States int
	// Violation is what is wrong, empty if nothing is.
	Violation string
	// Steps lead there, the shortest way.
	Steps []string
}

// search is one breadth-first search.
type search struct {
	Scene
	rules Rules
	seed  maphash.Seed
	seen  set
	// parent and act are how each state was reached first, by the number of the state.
	parent []uint32
	act    []action
	// next are the states of the next level, packed, each behind its length, in pieces.
	next [][]byte
	// Of the state being expanded.
	cur   uint32
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
	m := &search{Scene: scene, rules: rules, seed: maphash.MakeSeed()}
	m.seen.grow(1 << 16)
	first := m.first()
	m.reach(&first, action{})
	for number := uint32(0); m.found == "" && len(m.next) > 0 && m.seen.n < limit; {
		level := m.next
		m.next = nil
		for i, piece := range level {
			level[i] = nil // it can be freed before the level is done
			for at := 0; at < len(piece) && m.found == "" && m.seen.n < limit; number++ {
				n := int(piece[at]) | int(piece[at+1])<<8
				var s state
				c := coder{buf: piece[at+2 : at+2+n], read: true}
				c.state(&s)
				at += 2 + n
				m.cur = number
				m.expand(&s)
			}
		}
	}
	r := Result{States: m.seen.n, Violation: m.found}
	if m.found != "" {
		r.Steps = m.way()
	}
	return r
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
	if m.quiet || !m.seen.add(maphash.Comparable(m.seed, *s)) {
		return
	}
	m.parent, m.act = append(m.parent, m.cur), append(m.act, a)
	m.pack(s)
}

// pack appends a state to those of the next level.
func (m *search) pack(s *state) {
	const size, room = 1 << 22, 1 << 11 // of a piece, and for a state
	if k := len(m.next); k == 0 || len(m.next[k-1])+room > size {
		m.next = append(m.next, make([]byte, 0, size))
	}
	piece := &m.next[len(m.next)-1]
	at := len(*piece)
	c := coder{buf: append(*piece, 0, 0)}
	c.state(s)
	*piece = c.buf
	n := len(c.buf) - at - 2
	c.buf[at], c.buf[at+1] = byte(n), byte(n>>8)
}

// wrong notes a violation in the step that is being taken.
func (m *search) wrong(format string, args ...any) {
	if m.found == "" && !m.quiet {
		m.found = fmt.Sprintf(format, args...)
	}
}

// way returns the steps to the violation.
func (m *search) way() (steps []string) {
	if m.last != (action{}) {
		steps = []string{m.last.String()}
	}
	for n := m.cur; n != 0; n = m.parent[n] {
		steps = append([]string{m.act[n].String()}, steps...)
	}
	return steps
}

// expand reaches everything that one step leads to.
func (m *search) expand(s *state) {
	if m.liveness(s); m.found != "" {
		return
	}
	m.faults(s)
	for i := range m.Clients {
		m.steps(s, i)
	}
}

// set is a set of 64-bit hashes of states: a wrong match among a hundred million has a
// chance of one in 3,000.
type set struct {
	table []uint64
	n     int
}

// add reports whether the hash is new.
func (t *set) add(h uint64) bool {
	if h == 0 {
		h = 1
	}
	mask := uint64(len(t.table) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		switch t.table[i] {
		case h:
			return false
		case 0:
			t.table[i] = h
			if t.n++; t.n*4 > len(t.table)*3 {
				t.grow(2 * len(t.table))
			}
			return true
		}
	}
}

func (t *set) grow(size int) {
	old := t.table
	t.table = make([]uint64, size)
	mask := uint64(size - 1)
	for _, h := range old {
		if h == 0 {
			continue
		}
		i := h & mask
		for t.table[i] != 0 {
			i = (i + 1) & mask
		}
		t.table[i] = h
	}
}

// action is a step in a form that costs nothing until it is printed.
type action struct{ verb, who, seq, val uint8 }
