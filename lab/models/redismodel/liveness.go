// SPDX-License-Identifier: Apache-2.0

package redismodel

// liveness checks a state in which no client waits for a reply: without further faults
// each claim must be granted or withdrawn, and nothing may be left in the list.
// Messages that are in flight then never arrive; what happens if they do is another state.
func (m *search) liveness(s *state) {
	for i := range m.Clients {
		for _, c := range s.cl[i].claims {
			if c.phase != none {
				return
			}
		}
	}
	if !m.Poll {
		m.lostWake(s)
	}
	m.quiet = true
	stuck := m.fair(*s)
	m.quiet = false
	if stuck != "" {
		m.wrong("%s", stuck)
	}
}

// lostWake checks that the holder has been notified where no client polls.
func (m *search) lostWake(s *state) {
	if s.late[0].kind != 0 {
		return
	}
	for i := range m.Clients {
		for _, c := range s.cl[i].claims {
			if c.st == slow || c.st == leaving {
				return // its client is about to make a call
			}
		}
	}
	for i := range m.Clients {
		for j, c := range s.cl[i].claims {
			if c.st == queued && !s.srv.has(uint8(i), uint8(j)) {
				m.wrong("client %d waits, and its claim is not in the queue", i)
			}
		}
	}
	v := s.srv
	if m.refresh(&v) != 1 || v.list[1].kind != isClaim {
		return
	}
	e := v.list[1]
	if s.cl[e.who].claims[e.seq].st == queued {
		m.wrong("client %d waits for a lock that it holds, and is not notified", e.who)
	}
}

// fair runs a fair continuation without faults. It returns what remains undone.
func (m *search) fair(s state) string {
	s.late = [maxLate]msg{}
	if m.Return {
		s.srv.unchecked = 1 // in time
	}
	for range 4 * m.Clients * m.Claims {
		for i := range m.Clients {
			m.advance(&s, i)
			if m.Unnoticed && s.cl[i].done() { // a release may have reached the other server alone: it counts when the process ends
				s.srv.sess[i].st = ended
			}
		}
		if s.srv.grace != 0 && (m.graceOver(&s) || m.TTL > 0) {
			s.endGrace()
		}
	}
	for i := range m.Clients {
		for _, c := range s.cl[i].claims {
			if c.st != idle && c.st != over {
				return "a claim is neither granted nor withdrawn"
			}
		}
	}
	m.begin(&s, false, 0)
	if m.refresh(&s.srv) >= 0 {
		return "all claims are over, and the lock is not free"
	}
	return ""
}

// done reports whether a client has no claim that it waits for or holds.
func (k *client) done() bool {
	for _, c := range k.claims {
		if c.st != idle && c.st != over {
			return false
		}
	}
	return true
}

// advance takes the next step of a client, answered at once.
func (m *search) advance(s *state, i int) {
	k := &s.cl[i]
	if k.trust == 0 {
		if s.srv.sess[i].st == alive {
			s.srv.sess[i].st = ended // in time
		}
		return
	}
	if s.srv.reset(k) {
		m.open(s, i)
	}
	if !k.reclaiming() {
		s.srv.sess[i].reclaimed = s.srv.inc
	}
	for j := range m.Claims {
		c := &k.claims[j]
		g := msg{kind: mAttempt, who: uint8(i), seq: uint8(j), generation: k.generation, inc: k.inc}
		switch c.st {
		case slow, queued:
			g.ticket = c.ticket
		case held:
			if c.inc != k.inc {
				g.kind, g.ticket = mReclaim, c.ticket
				break
			}
			g.kind, g.ticket, g.since = mRelease, c.ticket, c.since
			if c.unsure != 0 && m.on(SureRelease) {
				g.kind = mTombstone
			} else if !m.reader(i) {
				c.st = releasing
			}
		case leaving:
			g.kind = mWithdraw
			if c.unsure != 0 {
				g.kind = mTombstone
			}
		default:
			continue
		}
		if m.reader(i) {
			g.kind = mUnshare // shared grants are not reclaimed here
		}
		done := false
		for !done {
			c.reply, done = m.execute(s, &g)
		}
		c.out.inc = k.inc
		m.accept(s, i, j)
	}
}
