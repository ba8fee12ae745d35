// SPDX-License-Identifier: Apache-2.0

package redismodel

// steps are everything that a client can do next.
func (m *search) steps(s *state, i int) {
	k := &s.cl[i]
	m.sessionSteps(s, i)
	for j := range m.Claims {
		if c := &k.claims[j]; c.phase != none {
			m.inFlight(s, i, j)
		} else if k.trust != 0 {
			m.choose(s, i, j)
		}
	}
}

// inFlight lets the call of a claim arrive, its reply arrive, or the client give up waiting.
func (m *search) inFlight(s *state, i, j int) {
	if s.cl[i].claims[j].phase == sent {
		t := *s
		c := &t.cl[i].claims[j]
		r, done := m.execute(&t, &c.out)
		if done {
			c.phase, c.reply = answered, r
			c.out = msg{kind: c.out.kind, inc: c.out.inc}
			if c.st == leaving {
				m.accept(&t, i, j)
			}
		}
		m.reach(&t, action{vExecute, uint8(i), uint8(j), s.cl[i].claims[j].out.kind})
	} else {
		t := *s
		m.accept(&t, i, j)
		m.reach(&t, action{vAccept, uint8(i), uint8(j), s.cl[i].claims[j].reply.kind})
	}
	m.stopped(s, i, j)
	if s.lost >= m.Lost {
		return
	}
	t := *s
	if t.lost++; !t.abandon(i, j) {
		return
	}
	c := &t.cl[i].claims[j]
	switch c.st {
	case held:
		c.unsure = 1
		m.reach(&t, action{vAgain, uint8(i), uint8(j), 0})
	case asking, slow, queued:
		c.unsure = 1
		u := t
		c.st = leaving
		m.reach(&t, action{vAbandon, uint8(i), uint8(j), 0})
		if m.reader(i) {
			return
		}
		u.cl[i].claims[j].st = slow
		m.reach(&u, action{vAgain, uint8(i), uint8(j), 0})
	default:
		if c.st = leaving; !m.on(Finish) {
			*c = claim{st: over}
		}
		m.reach(&t, action{vAbandon, uint8(i), uint8(j), 0})
		if g := s.cl[i].claims[j].out; g.kind == mRelease && g.step < 2 {
			t = *s
			t.lost++
			c.out.step++ // the server rejects this command and executes the rest
			if t.abandon(i, j) {
				c.st = leaving
				m.reach(&t, action{vReject, uint8(i), uint8(j), 0})
			}
		}
	}
}

// abandon leaves a call without a client that waits for its reply. It reports whether there
// is room for the message.
func (s *state) abandon(i, j int) bool {
	c := &s.cl[i].claims[j]
	ok := c.phase != sent || s.send(c.out)
	c.phase, c.out, c.reply = none, msg{}, reply{}
	return ok
}

// call sends a message of a claim.
func (m *search) call(s *state, i, j int, kind uint8) {
	k := &s.cl[i]
	c := &k.claims[j]
	c.phase = sent
	c.out = msg{kind: kind, who: uint8(i), seq: uint8(j), generation: k.generation, inc: k.inc}
	switch kind {
	case mFast:
		c.out.run = k.run
	case mAttempt, mReclaim:
		c.out.ticket = c.ticket
	case mRelease:
		c.out.ticket, c.out.since, c.out.inc = c.ticket, c.since, c.inc
	}
	m.reach(s, action{vSend, uint8(i), uint8(j), kind})
}

// choose is what a client does with a claim that has no call in flight.
func (m *search) choose(s *state, i, j int) {
	k := &s.cl[i]
	c := &k.claims[j]
	t := *s
	d := &t.cl[i].claims[j]
	switch c.st {
	case idle:
		m.start(s, i, j)
	case slow:
		m.call(&t, i, j, mAttempt)
	case queued:
		if m.Poll {
			m.call(&t, i, j, mAttempt)
		}
		if s.gives < m.Gives {
			t = *s
			t.gives++
			d.st = leaving
			m.reach(&t, action{vGiveUp, uint8(i), uint8(j), 0})
		}
	case held:
		m.letGo(s, i, j)
	case leaving:
		kind := mWithdraw
		if m.reader(i) {
			kind = mUnshare
		} else if c.unsure != 0 {
			kind = mTombstone
		}
		m.call(&t, i, j, kind)
	}
}

// start begins an acquisition.
func (m *search) start(s *state, i, j int) {
	if i > 0 && j == 0 && s.cl[i-1].claims[0].st == idle && !m.reader(i) {
		return // clients are alike: begin in order
	}
	if j > 0 && s.cl[i].claims[j-1].st < leaving && !(m.Batch && s.cl[i].claims[j-1].st == releasing) {
		return // a client queues its own callers
	}
	t := *s
	t.cl[i].claims[j].st = asking
	if m.reader(i) {
		m.call(&t, i, j, mShare)
		return
	}
	u := t
	if s.cl[i].fast != 0 || !m.on(AfterGrace) {
		m.call(&t, i, j, mFast)
	}
	if s.cl[i].fast == 0 || m.Scripts {
		m.call(&u, i, j, mAttempt)
	}
}

// letGo releases a lock, or learns that it is lost.
func (m *search) letGo(s *state, i, j int) {
	c := &s.cl[i].claims[j]
	if c.broken != 0 {
		t := *s
		t.cl[i].claims[j].st = leaving
		m.reach(&t, action{vBroken, uint8(i), uint8(j), 0})
		return
	}
	if c.inc != s.cl[i].inc { // of an earlier incarnation: it is still trusted until then
		t := *s
		t.cl[i].claims[j].st, t.cl[i].claims[j].unsure = leaving, 1
		m.reach(&t, action{vLapse, uint8(i), uint8(j), 0})
		t = *s
		m.call(&t, i, j, mReclaim)
		return
	}
	t := *s
	if !m.reader(i) && (c.unsure == 0 || !m.on(SureRelease)) {
		t.cl[i].claims[j].st = releasing
		m.call(&t, i, j, mRelease)
	}
	if m.Scripts || m.reader(i) || c.unsure != 0 && m.on(SureRelease) {
		t = *s
		t.cl[i].claims[j].st = leaving
		m.reach(&t, action{vScript, uint8(i), uint8(j), 0})
	}
}

// accept lets a client take the reply of a call.
func (m *search) accept(s *state, i, j int) {
	k := &s.cl[i]
	c := &k.claims[j]
	r, inc := c.reply, c.out.inc
	c.phase, c.out, c.reply = none, msg{}, reply{}
	switch r.kind {
	case rGranted:
		m.hold(s, i, j, r, inc, inc)
	case rQueued:
		c.st, c.ticket, c.since, c.inc = queued, r.ticket, r.since, inc
	case rSlow:
		c.st, c.ticket = slow, r.ticket
	case rAbsent:
		*c = claim{st: over}
	case rGone:
		s.untrust(i)
	case rReset: // it opens its session again, and then sends the same again
		if c.st == asking {
			c.st = slow
		}
	case rNotThere:
		c.st = leaving
	case rConfirmed:
		c.inc, c.since = inc, r.since
	case rRefused:
		c.st, c.unsure = leaving, 1
	case rOK:
		if c.st == releasing && r.ticket > 0 && m.on(Wake) {
			s.send(msg{kind: mWake, inc: k.inc})
		}
		*c = claim{st: over}
	}
}

// hold lets a client hold its lock, under its incarnation inc, and checks that it may. The
// server answered in the incarnation when.
func (m *search) hold(s *state, i, j int, r reply, inc, when uint8) {
	c := &s.cl[i].claims[j]
	c.st, c.ticket, c.since, c.inc = held, r.ticket, r.since, inc
	if c.broken != 0 {
		return
	}
	if m.Unnoticed && s.cl[i].seen < s.incs {
		return // no one could know of the other server: not the first one, and not this client
	}
	// Without grace, a reply from before a data loss may come after a grant of a later
	// incarnation. Guards reject its token.
	if m.Grace && !m.Unnoticed || when == s.srv.inc {
		if r.ticket <= s.top {
			m.wrong("the token %d of a grant is not above %d", r.ticket, s.top)
		}
		s.top = max(s.top, r.ticket)
	}
	for o := range m.Clients {
		for p := range m.Claims {
			d := s.cl[o].claims[p]
			if m.Unnoticed && s.cl[o].seen < s.incs {
				continue
			}
			if (o != i || p != j) && d.st == held && d.broken == 0 && (m.Grace || s.losses == 0) {
				m.wrong("clients %d and %d hold the lock", i, o)
			}
		}
	}
}

// untrust lets the trusted deadline of a client pass: its leases are lost, and its claims
// end with the session.
func (s *state) untrust(i int) bool {
	k := &s.cl[i]
	ok := true
	for j := range k.claims {
		ok = s.abandon(i, j) && ok
		if k.claims[j].st != idle {
			k.claims[j] = claim{st: over}
		}
	}
	k.trust, k.fast, k.until = 0, 0, 0
	return ok
}
