// SPDX-License-Identifier: Apache-2.0

package gracemodel

import "fmt"

// expand reaches everything that one step leads to.
func (m *search) expand(s state) {
	if s.now < m.Ticks {
		t := s
		t.now++
		for i := range t.procs {
			if p := &t.procs[i]; p.until <= t.now {
				p.holds = false
			}
		}
		m.reach(t, "a second passes")
	}
	m.faults(s)
	for i := range m.Processes {
		m.process(s, i)
	}
}

// faults are data losses.
func (m *search) faults(s state) {
	if s.losses >= m.Losses {
		return
	}
	if m.Flush && s.srv.inc != 0 {
		t := s
		t.losses++
		t.srv, t.old = marker{}, marker{}
		m.reach(t, "the server loses everything")
	}
	if m.Failover && !s.hasCopy && s.srv.inc != 0 {
		t := s
		t.hasCopy, t.copied = true, s.srv
		m.reach(t, "a replica copies the data")
	}
	if s.hasCopy {
		t := s
		t.losses++
		t.srv, t.old, t.oldUntil = s.copied, s.srv, s.now+m.Serves
		t.srv.inc |= fresh // its incarnation is not that of this server
		t.hasCopy, t.copied = false, marker{}
		m.reach(t, "the replica takes over")
	}
}

// fresh marks data that another server wrote: the next call begins a new incarnation.
const fresh = 0x80

// process is everything that a process can do.
func (m *search) process(s state, i int) {
	p := s.procs[i]
	if !p.running {
		t := s
		t.procs[i].running = true
		m.reach(t, fmt.Sprintf("p%d starts", i))
		return
	}
	if p.inc != s.srv.inc || s.srv.ends[i] <= s.now {
		t := s
		m.open(&t, i)
		m.reach(t, fmt.Sprintf("p%d opens its session", i))
	} else {
		t := s
		t.srv.ends[i] = s.now + m.Processes[i].TTL
		m.learn(&t, i)
		m.reach(t, fmt.Sprintf("p%d keeps its session alive", i))
		m.acquire(s, i)
	}
	if s.now < s.oldUntil && p.inc == s.old.inc && s.old.ends[i] > s.now && p.inc != s.srv.inc {
		t := s
		t.procs[i].until = max(p.until, s.now+m.Processes[i].TTL)
		t.old.ends[i] = t.procs[i].until
		m.reach(t, fmt.Sprintf("p%d is kept alive by the server that was replaced", i))
	}
}

// learn is what a process takes from a reply of the server: its trusted deadline and the settings. In one incarnation
// a setting becomes weaker only because an operator did it, so what the marker says replaces what the process knew.
func (m *search) learn(s *state, i int) {
	p, own := &s.procs[i], m.Processes[i]
	p.until = s.now + own.TTL
	p.facts = p.facts.and(s.srv.facts)
	if m.on(Remembered) {
		p.grace = own.Asks || s.srv.grace
	}
	if m.on(Known) {
		p.max = max(own.Max, s.srv.max)
	}
}

// open opens a session, or resumes it, and begins a new incarnation if there is a reason.
func (m *search) open(s *state, i int) {
	p, v := &s.procs[i], &s.srv
	grace := p.grace || v.grace && m.on(Property)
	switch {
	case v.inc == 0 || v.inc&fresh != 0:
		s.incs++
		before := *v
		*v = marker{inc: s.incs, began: s.now, grace: grace, max: p.max, longest: before.longest, facts: before.facts.and(p.facts), holder: before.holder, holderInc: before.holderInc, last: before.last, outdated: before.outdated, newer: before.newer, ends: before.ends}
		m.raise(v, before.max)
		if before.granted && m.on(Outdated) {
			v.last = before.inc &^ fresh
		}
		if before.began+m.length(v, p) > before.first {
			v.outdated = v.last
		}
		v.over = s.now
		if grace {
			v.over = s.now + m.length(v, p)
			v.first = v.over
		}
	case grace && !v.grace || p.max > v.max:
		v.grace = grace
		m.raise(v, p.max)
		if v.granted && m.on(Newest) {
			v.last = v.inc
		}
		if grace {
			v.outdated = v.last
		}
		if grace && m.on(Rest) {
			v.over = max(v.over, v.began+m.length(v, p))
		}
	}
	own := m.Processes[i]
	v.longest, v.facts = max(v.longest, own.TTL), v.facts.and(p.facts)
	m.reclaim(s, i)
	p.inc, v.ends[i] = v.inc, s.now+own.TTL
	m.learn(s, i)
}

// reclaim puts back the lease of a process, in a grace period, or where the server still has it.
func (m *search) reclaim(s *state, i int) {
	p, v := &s.procs[i], &s.srv
	own := int(v.holder) == i+1 && v.ends[i] > s.now
	if !p.holds || !own && (v.over <= s.now || v.holder != 0 && v.holderInc == v.inc || p.got < v.outdated) {
		p.holds = false
		return
	}
	if !own && v.newer[i] {
		m.found = fmt.Sprintf("p%d gets its lost grant back after a newer one", i)
	}
	v.holder, v.holderInc = uint8(i+1), v.inc
}

func (m *search) raise(v *marker, to uint8) {
	if m.on(Highest) {
		v.max = max(v.max, to)
	}
}

// length is how long the grace period of a marker is.
func (m *search) length(v *marker, p *process) uint8 {
	switch {
	case !m.on(Declared) && v.longest > 0:
		return v.longest
	case !m.on(Margin):
		return v.max - m.Serves
	}
	return max(v.max, p.max)
}

// acquire asks for the lock, and releases it.
func (m *search) acquire(s state, i int) {
	v := &s.srv
	if s.procs[i].holds {
		t := s
		t.procs[i].holds = false
		if int(v.holder) == i+1 {
			t.srv.holder = 0
		}
		m.reach(t, fmt.Sprintf("p%d unlocks", i))
		return
	}
	if s.now < v.over {
		return
	}
	if h := int(v.holder) - 1; h >= 0 && v.ends[h] > s.now && (v.holderInc == v.inc || !v.grace) {
		return
	}
	t := s
	act := fmt.Sprintf("p%d is granted the lock", i)
	for o, other := range s.procs {
		if o != i && other.holds && other.until > s.now && v.facts.grace && v.facts.max >= m.Processes[o].TTL+m.Serves {
			m.found = fmt.Sprintf("p%d is granted the lock while p%d holds it", i, o)
		}
	}
	t.srv.holder, t.srv.holderInc, t.srv.granted = uint8(i+1), v.inc, true
	t.procs[i].holds, t.procs[i].got = true, v.inc
	for o, other := range s.procs {
		t.srv.newer[o] = o != i && (v.newer[o] || other.holds)
	}
	m.reach(t, act)
}
