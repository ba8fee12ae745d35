// SPDX-License-Identifier: Apache-2.0

package redismodel

// sessionSteps are the end of the trusted time, and opening a session again.
func (m *search) sessionSteps(s *state, i int) {
	k, v := &s.cl[i], &s.srv
	if k.trust != 0 && s.ends < m.Ends {
		t := *s
		if t.ends++; t.untrust(i) {
			m.reach(&t, action{vUntrust, uint8(i), 0, 0})
		}
	}
	reset := v.reset(k)
	m.keepSteps(s, i)
	if k.trust == 0 && !m.lives(v, uint8(i)) || k.trust != 0 && reset {
		t := *s
		m.open(&t, i)
		m.reach(&t, action{vOpen, uint8(i), 0, 0})
	}
	// The session reports that everything is reclaimed.
	if k.trust != 0 && !reset && m.lives(v, uint8(i)) && v.sess[i].reclaimed != v.inc && !k.reclaiming() {
		t := *s
		t.srv.sess[i].reclaimed = v.inc
		m.reach(&t, action{vReclaimed, uint8(i), 0, 0})
	}
}

func (k *client) reclaiming() bool {
	for _, c := range k.claims {
		if c.st == held && c.inc != k.inc {
			return true
		}
	}
	return false
}

// open opens a session, or resumes it after a reset.
func (m *search) open(s *state, i int) {
	m.begin(s, true, s.cl[i].seen)
	k, v := &s.cl[i], &s.srv
	if !m.lives(v, uint8(i)) {
		s.generations[i]++
		v.sess[i] = session{st: alive, generation: s.generations[i], reclaimed: v.inc}
		v.readers &^= 3 << (2 * i)
	}
	k.generation, k.inc, k.run, k.trust = v.sess[i].generation, v.inc, v.run, 1
	k.seen = max(k.seen, v.inc)
	k.fast = 1 - v.grace
	m.opened(s, i)
	for j := range k.claims {
		c := &k.claims[j]
		if c.phase != none && m.on(SameSession) {
			if c.phase == sent {
				c.unsure = 1
			}
			s.abandon(i, j)
		}
		switch {
		case c.phase != none:
		case c.st == releasing:
			c.st = leaving
		case m.reader(i) && c.st != idle: // reclaiming shared grants is not modeled
			*c = claim{st: over}
		case c.st == asking, c.st == queued:
			c.st, c.ticket, c.since, c.inc = slow, 0, 0, 0
		}
	}
}

// faults are steps that no client takes.
func (m *search) faults(s *state) {
	m.expiry(s)
	m.tick(s)
	m.losses(s)
	m.returns(s)
	if s.srv.grace != 0 && m.graceOver(s) {
		t := *s
		t.endGrace()
		m.reach(&t, action{vGraceEnds, 0, 0, 0})
	}
	if s.breaks < m.Breaks {
		t := *s
		t.breaks++
		if m.breakHead(&t) {
			m.reach(&t, action{vBreak, 0, 0, t.top})
		}
	}
	for n := range s.late {
		if s.late[n].kind == 0 {
			break
		}
		m.deliver(s, n)
	}
}

// deliver lets a message arrive that no client waits for.
func (m *search) deliver(s *state, n int) {
	t := *s
	g := t.late[n]
	t.drop(n)
	if g.kind == mPush {
		c := &t.cl[g.who].claims[g.seq]
		if c.st == asking || c.st == slow {
			return // it is kept until the claim waits
		}
		if c.st == queued && (c.ticket == g.ticket || !m.on(SameTicket)) && t.cl[g.who].trust != 0 {
			if !t.abandon(int(g.who), int(g.seq)) {
				return
			}
			if s.cl[g.who].claims[g.seq].phase == sent {
				c.unsure = 1
			}
			m.hold(&t, int(g.who), int(g.seq), reply{rGranted, g.ticket, g.since}, c.inc, g.inc)
		}
	} else if _, done := m.execute(&t, &g); !done {
		t.send(g)
	}
	m.reach(&t, action{vLate, g.who, g.seq, g.kind})
}

// stopped lets the script of a release end in the middle, with an error. The client repeats it. A server that
// moves the slot rejects the script before its first command (rule 33).
func (m *search) stopped(s *state, i, j int) {
	if c := &s.cl[i].claims[j]; c.phase != sent || c.st != leaving || s.stops >= m.Stops+m.Moves {
		return
	}
	for part := beforeAll; part <= half; part++ {
		t := *s
		t.stops++
		c := &t.cl[i].claims[j]
		if m.Moves == 0 || !m.on(Whole) {
			m.stop = part
			m.execute(&t, &c.out)
			m.stop = 0
		}
		c.phase, c.out, c.reply = none, msg{}, reply{}
		m.reach(&t, action{vStop, uint8(i), uint8(j), part})
	}
}

// expiry ends sessions in the server: after their clients have stopped to trust them, or
// early in a copy that is older than the last keep-alive.
func (m *search) expiry(s *state) {
	for i := range m.Clients {
		switch k := s.cl[i]; {
		case m.TTL > 0:
			m.sweep(s, i)
		case s.srv.sess[i].st == alive && (k.trust == 0 || k.inc != s.srv.inc || k.generation != s.srv.sess[i].generation):
			t := *s
			t.srv.sess[i].st = ended
			m.reach(&t, action{vEnd, uint8(i), 0, 0})
		case s.srv.sess[i].st == ended:
			t := *s
			if m.doubts(&t.srv, uint8(i)) {
				break
			}
			t.srv.sess[i] = session{}
			t.srv.tomb[i] = 0
			m.reach(&t, action{vSweep, uint8(i), 0, 0})
		}
	}
}

// losses are FLUSHALL, a restart without data, and a failover to an older copy.
func (m *search) losses(s *state) {
	if s.losses >= m.Losses {
		return
	}
	if m.Flush {
		t := *s
		t.losses++
		t.srv = server{run: t.srv.run, now: t.srv.now}
		t.copy, t.copied = server{}, 0
		m.reach(&t, action{vFlush, 0, 0, 0})
		t.runs++
		t.srv.run = t.runs
		m.reach(&t, action{vRestart, 0, 0, 0})
	}
	if m.Failover && s.copied == 0 && s.away == 0 {
		t := *s
		t.copied, t.copy = 1, t.srv
		t.copy.now = 0
		m.reach(&t, action{vCopy, 0, 0, 0})
	}
	if m.Failback && s.srv.run != 1 && s.srv.mrun == s.srv.run {
		t := *s
		t.losses++
		t.srv.run = 1
		t.copy, t.copied = server{}, 0
		m.reach(&t, action{vFailback, 0, 0, 0})
	}
	if s.copied != 0 {
		t := *s
		t.losses++
		t.runs++
		t.srv = t.copy
		t.srv.run, t.srv.repl, t.srv.now = t.runs, t.runs, s.srv.now
		t.copy, t.copied = server{}, 0
		if m.Return && t.away == 0 {
			t.first, t.away = s.srv, 1
		}
		t.unbreak()
		m.reach(&t, action{vFailover, 0, 0, 0})
	}
}

// returns lets the first server take over with its own data. The other one is down by then, or
// accepts no writes. If it could grant, the first one was away for a grace period: its sessions have ended,
// and no check of its marker counts any more.
func (m *search) returns(s *state) {
	if s.away == 1 && s.losses < m.Losses && (m.Grace || !s.granting()) {
		t := *s
		t.losses++
		t.srv, t.first, t.away = t.first, server{}, 2
		t.copy, t.copied = server{}, 0
		t.srv.now = s.srv.now
		if !m.Unnoticed {
			t.runs++
			t.srv.repl = t.runs
		}
		if s.srv.inc != t.srv.inc && s.srv.mrun == s.srv.run && s.srv.grace == 0 {
			t.srv.unchecked = 1
			for i := range t.srv.sess {
				if m.Grace && t.srv.sess[i].st == alive {
					t.srv.sess[i].st = ended
				}
			}
		}
		m.reach(&t, action{vReturn, 0, 0, 0})
	}
	if m.Return && s.srv.unchecked == 0 {
		t := *s
		t.srv.unchecked = 1
		m.reach(&t, action{vUncheck, 0, 0, 0})
	}
}

// granting reports whether a grant is on its way to a client. Without grace one from before a data loss may
// come after a later grant; guards reject its token.
func (s *state) granting() bool {
	for i := range s.cl {
		for j, c := range s.cl[i].claims {
			if c.phase == answered && c.reply.kind == rGranted || s.pushed(i, j) {
				return true
			}
		}
	}
	return false
}

// unbreak lets a break be lost with the data, where its claim was not granted yet.
func (s *state) unbreak() {
	for i := range s.cl {
		for j := range s.cl[i].claims {
			c := &s.cl[i].claims[j]
			if c.st != held && c.st != releasing && c.phase != answered && !s.pushed(i, j) {
				c.broken = 0
			}
		}
	}
}

func (s *state) pushed(i, j int) bool {
	for _, g := range s.late {
		if g.kind == mPush && int(g.who) == i && int(g.seq) == j {
			return true
		}
	}
	return false
}

// graceOver reports whether the grace period may end: it lasts until every deadline from
// before it has passed.
func (m *search) graceOver(s *state) bool {
	if m.TTL > 0 {
		return s.srv.now >= s.srv.graceEnd
	}
	for i := range m.Clients {
		k := &s.cl[i]
		if k.trust != 0 && k.inc != s.srv.inc {
			return false
		}
		if s.srv.sess[i].st == alive && k.inc != s.srv.inc {
			return false // a session that was not opened again ends before, too
		}
		for _, c := range k.claims {
			if (c.st == held || c.st == releasing) && c.inc != s.srv.inc {
				return false
			}
		}
	}
	return true
}

func (s *state) endGrace() {
	s.srv.grace = 0
	for i := range s.cl {
		if s.cl[i].inc == s.srv.inc && s.cl[i].trust != 0 {
			s.cl[i].fast = 1
		}
	}
}

// breakHead lets an operator break the grant of the holder, and reports whether there is one.
func (m *search) breakHead(s *state) bool {
	v := &s.srv
	if !m.begin(s, false, 0) || m.refresh(v) != 1 || v.grace != 0 || v.list[1].kind != isClaim {
		return false
	}
	e, ticket := v.list[1], v.list[0].ticket
	v.remove(1)
	v.remove(0)
	v.tomb[e.who] |= 1 << e.seq
	if c := &s.cl[e.who].claims[e.seq]; c.st != idle && c.st != over {
		c.broken = 1
	}
	fence := ticket + 1
	if m.on(FenceAbove) {
		fence = max(ticket, v.base) + 1
	}
	if fence <= s.top {
		m.wrong("the fence %d is not above the token %d of an earlier grant", fence, s.top)
	}
	s.top = fence
	m.wake(s)
	return true
}
