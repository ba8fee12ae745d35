// SPDX-License-Identifier: Apache-2.0

package redismodel

// share grants a shared claim beside other shared ones, or answers that the lock is held.
func (m *search) share(s *state, g *msg) reply {
	if r := m.known(s, g); r != 0 {
		return reply{kind: r}
	}
	v := &s.srv
	head := m.refresh(v)
	if v.tomb[g.who]&(1<<g.seq) != 0 || v.grace != 0 || head >= 0 {
		return reply{kind: rAbsent}
	}
	m.refill(s)
	t := v.take()
	v.readers |= 1 << (2*g.who + g.seq)
	if m.on(Sentinel) {
		v.push(elem{kind: isTicket})
		v.push(elem{kind: isShared})
	}
	return reply{rGranted, t, 0}
}

func (m *search) unshare(s *state, g *msg) reply {
	if r := m.known(s, g); r != 0 {
		return reply{kind: r}
	}
	s.srv.tomb[g.who] |= 1 << g.seq
	s.srv.readers &^= 1 << (2*g.who + g.seq)
	m.wake(s)
	return reply{kind: rOK}
}
