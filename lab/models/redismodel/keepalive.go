// SPDX-License-Identifier: Apache-2.0

package redismodel

// lives reports whether a session lives, as scripts see it: the end that they have noted, or, if
// that is over, the one that keep-alives have moved, which is noted then.
func (m *search) lives(v *server, who uint8) bool {
	k := &v.sess[who]
	if m.TTL == 0 || k.st != alive {
		return k.st == alive
	}
	if k.noted <= v.now && m.on(MovedEnd) {
		k.noted = max(k.noted, k.moved)
	}
	return k.noted > v.now
}

// later is the end of a session that is opened or kept alive now. Time is modeled for the first
// client only: the others are kept alive somehow, until a data loss.
func (m *search) later(s *state, i int) uint8 {
	switch {
	case m.TTL == 0:
		return 0
	case i > 0:
		return m.Ticks + 1
	}
	return s.srv.now + m.TTL
}

// opened sets the end of a session that was opened or resumed.
func (m *search) opened(s *state, i int) {
	end := m.later(s, i)
	s.srv.sess[i].noted, s.srv.sess[i].moved, s.cl[i].until = end, end, end
	s.abandonKeep(i) // its reply is one to the session of before
}

// tick lets time pass. A client stops to trust its session at its deadline.
func (m *search) tick(s *state) {
	if s.srv.now >= m.Ticks {
		return
	}
	t := *s
	t.srv.now++
	for i := range m.Clients {
		if !t.lapse(i) {
			return
		}
		k := &t.cl[i]
		reset := k.inc != t.srv.inc && t.srv.now >= t.srv.graceEnd // it had no keep-alive since
		if k.trust != 0 && (k.until <= t.srv.now || i > 0 && reset) && !t.untrust(i) {
			return
		}
	}
	m.reach(&t, action{vTick, 0, 0, 0})
}

// lapse ends the leases of a client that it has not reclaimed until the end of the grace period:
// to open its session again does not move their deadlines.
func (s *state) lapse(i int) bool {
	k := &s.cl[i]
	for j := range k.claims {
		c := &k.claims[j]
		if (c.st == held || c.st == releasing) && c.inc != k.inc && s.srv.now >= s.srv.graceEnd {
			if !s.abandon(i, j) {
				return false
			}
			c.st, c.unsure = leaving, 1
		}
	}
	return true
}

// sweep drops a session that has ended.
func (m *search) sweep(s *state, i int) {
	t := *s
	if t.srv.sess[i].st == alive && !m.lives(&t.srv, uint8(i)) {
		t.srv.sess[i], t.srv.tomb[i] = session{}, 0
		m.reach(&t, action{vSweep, uint8(i), 0, 0})
	}
}

// keepSteps are what a client does to keep its session alive.
func (m *search) keepSteps(s *state, i int) {
	k := &s.cl[i]
	t := *s
	d := &t.cl[i]
	switch {
	case k.phase == none:
		if i == 0 && k.trust != 0 && s.keeps < m.Keeps {
			t.keeps++
			m.sendKeep(&t, i, mKeep)
		}
		return
	case k.phase == sent:
		r, done := m.execute(&t, &d.out)
		if done {
			d.phase, d.reply = answered, r
		}
		m.reach(&t, action{vKeepDone, uint8(i), 0, k.out.kind})
	default:
		m.acceptKeep(&t, i)
	}
	if t = *s; t.abandonKeep(i) {
		m.reach(&t, action{vKeepLost, uint8(i), 0, 0})
	}
}

// sendKeep sends a keep-alive. The client computes the end.
func (m *search) sendKeep(s *state, i int, kind uint8) {
	k := &s.cl[i]
	k.phase, k.reply = sent, reply{}
	k.out = msg{kind: kind, who: uint8(i), generation: k.generation, inc: k.inc, run: k.run, ticket: m.later(s, i)}
	m.reach(s, action{vKeep, uint8(i), 0, kind})
}

// acceptKeep lets a client take the reply to a keep-alive.
func (m *search) acceptKeep(s *state, i int) {
	k := &s.cl[i]
	r, end := k.reply, k.out.ticket
	k.phase, k.out, k.reply = none, msg{}, reply{}
	switch {
	case r.kind == rUnclear && k.trust != 0:
		m.sendKeep(s, i, mKeepScript)
		return
	case r.kind == rGone && k.trust != 0:
		s.untrust(i)
	case r.kind == rKept && (k.trust != 0 || !m.on(InTime)) && end > s.srv.now:
		k.until = max(k.until, end)
		k.trust = 1
	}
	m.reach(s, action{vKeepTaken, uint8(i), 0, r.kind})
}

// abandonKeep leaves a keep-alive without a client that waits for its reply.
func (s *state) abandonKeep(i int) bool {
	k := &s.cl[i]
	ok := k.phase != sent || s.send(k.out)
	k.phase, k.out, k.reply = none, msg{}, reply{}
	return ok
}

// keep is ZADD XX GT CH, then HMGET, TIME, SCRIPT EXISTS, with any calls of others between the two;
// while a slot moves, without the proof.
func (m *search) keep(s *state, g *msg) (reply, bool) {
	k := &s.srv.sess[g.who]
	if g.step == 0 {
		switch {
		case k.moved == 0 && m.on(NoNewEnd): // XX
		case k.moved == 0:
			m.wrong("a session that was removed has an end again")
		case g.ticket > k.moved || !m.on(LaterEnd): // GT
			k.moved, g.since = g.ticket, 1
		}
		g.step = 1
		return reply{}, false
	}
	if g.since == 0 || k.st != alive || (s.srv.inc != g.inc || k.generation != g.generation || s.srv.run != g.run && !m.Apart) && m.on(SameMarker) {
		return reply{kind: rUnclear}, true
	}
	return reply{kind: rKept}, true
}

// keepScript is the keep-alive script.
func (m *search) keepScript(s *state, g *msg) reply {
	if r := m.known(s, g); r != 0 {
		return reply{kind: r}
	}
	k := &s.srv.sess[g.who]
	end := m.later(s, int(g.who))
	k.noted, k.moved = end, end
	return reply{kind: rKept}
}
