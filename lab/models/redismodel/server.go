// SPDX-License-Identifier: Apache-2.0

package redismodel

func (v *server) push(e elem) {
	if v.n == maxList {
		panic("redismodel: the list is full")
	}
	v.list[v.n] = e
	v.n++
}

func (v *server) remove(i int) {
	copy(v.list[i:v.n], v.list[i+1:v.n])
	v.n--
	v.list[v.n] = elem{}
}

// lrem removes the first element with that value, as LREM does, and reports whether there
// was one.
func (v *server) lrem(e elem) bool {
	for i := range int(v.n) {
		if v.list[i] == e {
			v.remove(i)
			return true
		}
	}
	return false
}

// has reports whether a claim is in the list.
func (v *server) has(who, seq uint8) bool {
	for i := range int(v.n) {
		if e := v.list[i]; e.kind == isClaim && e.who == who && e.seq == seq {
			return true
		}
	}
	return false
}

// paired reports whether the element is a claim right behind a ticket. Anything else is a
// leftover.
func (v *server) paired(i int) bool {
	return i > 0 && i < int(v.n) && v.list[i].kind != isTicket && v.list[i-1].kind == isTicket
}

// stands reports whether a claim of the list may hold the lock.
func (m *search) stands(v *server, e elem) bool {
	if e.kind == isShared {
		return m.shared(v)
	}
	if m.doubts(v, e.who) {
		return true
	}
	k := v.sess[e.who]
	return m.lives(v, e.who) &&
		(k.generation == e.generation || !m.on(Generation)) &&
		(e.inc == v.inc || k.reclaimed != v.inc || !m.on(Incarnation)) &&
		(v.tomb[e.who]&(1<<e.seq) == 0 || !m.on(Tombstone))
}

// doubts reports whether a session that has ended may have been kept alive on another server: this one was a
// replica in between. A script reads that when it meets such a session, and the next one begins a new incarnation.
func (m *search) doubts(v *server, who uint8) bool {
	if v.sess[who].st != ended || v.mrepl == v.repl || !m.on(SureEnd) {
		return false
	}
	v.unchecked = 1
	return true
}

// shared reports whether a shared grant stands.
func (m *search) shared(v *server) bool {
	for i := range m.Clients {
		if v.readers&(3<<(2*i)) != 0 && m.lives(v, uint8(i)) {
			return true
		}
	}
	return false
}

// refresh removes leftovers and claims that do not stand in front, and returns the
// number of the holder's element, or -1 if the list has no holder.
func (m *search) refresh(v *server) int {
	for v.n > 0 {
		if !m.on(Leftovers) && (v.list[0].kind == isTicket && !v.paired(1) || v.list[0].kind == isClaim && m.stands(v, v.list[0])) {
			return 0 // taken for a lock that is held
		}
		switch {
		case v.paired(1) && m.stands(v, v.list[1]):
			return 1
		case v.paired(1):
			v.remove(1)
			v.remove(0)
		default:
			v.remove(0)
		}
	}
	return -1
}

// current reports whether the marker is that of the server as it is, as far as a script looks. seen is
// the incarnation that the caller knows.
func (m *search) current(s *state, seen uint8) bool {
	v := &s.srv
	switch {
	case v.inc == 0, v.mrun != v.run, seen > v.inc && m.on(Seen):
		return false
	case v.unchecked != 0:
		if v.mrepl != v.repl && m.on(ReplicationID) {
			return false
		}
		v.mrepl, v.unchecked = v.repl, 0
	}
	return true
}

// reset reports whether a script would begin a new incarnation, or has.
func (v *server) reset(k *client) bool {
	return v.inc != k.inc || v.mrun != v.run || v.unchecked != 0 && v.mrepl != v.repl
}

// begin is what every script does first: it begins a new incarnation if the marker is not
// current. It reports whether there is a marker.
func (m *search) begin(s *state, open bool, seen uint8) bool {
	v := &s.srv
	if v.inc == 0 && !open {
		return false
	}
	if m.current(s, seen) {
		return true
	}
	s.incs++
	v.inc, v.mrun, v.mrepl, v.unchecked = s.incs, v.run, v.repl, 0
	v.grace, v.graceEnd = 0, 0
	if m.Grace {
		v.grace = 1
		v.graceEnd = v.now + m.TTL
	}
	if m.on(DropTickets) {
		v.ready = [maxReady]uint8{}
	}
	if m.on(AboveAll) {
		v.last = max(v.last, s.clock)
	}
	v.base = v.last
	if m.Eager {
		m.refill(s)
	}
	return true
}

// refill issues tickets if none are ready.
func (m *search) refill(s *state) {
	v := &s.srv
	if v.ready[0] != 0 {
		return
	}
	for i := range v.ready {
		v.last += m.step()
		v.ready[i] = v.last
	}
	s.clock = max(s.clock, v.last)
}

func (m *search) step() uint8 {
	if m.on(EvenTickets) {
		return 2
	}
	return 1
}

// take takes the next ticket, 0 if none is ready.
func (v *server) take() uint8 {
	t := v.ready[0]
	copy(v.ready[:], v.ready[1:])
	v.ready[maxReady-1] = 0
	return t
}

// execute lets the server execute a message, or the next command of a pipeline. It reports
// whether that was all of it.
func (m *search) execute(s *state, g *msg) (reply, bool) {
	switch g.kind {
	case mFast:
		return m.fast(s, g)
	case mAttempt:
		return m.attempt(s, g), true
	case mWithdraw, mTombstone:
		return m.withdraw(s, g), true
	case mRelease:
		return m.release(s, g)
	case mWake:
		if m.begin(s, false, g.inc) {
			m.wake(s)
		}
	case mShare:
		return m.share(s, g), true
	case mUnshare:
		return m.unshare(s, g), true
	case mReclaim:
		return m.reclaim(s, g), true
	case mKeep:
		return m.keep(s, g)
	case mKeepScript:
		return m.keepScript(s, g), true
	}
	return reply{}, true
}

// fast is the transaction: LMOVE, RPUSH, HMGET, SCRIPT EXISTS.
func (m *search) fast(s *state, g *msg) (reply, bool) {
	v := &s.srv
	if g.step == 0 {
		g.ticket = v.take()
		if g.ticket != 0 {
			v.push(elem{kind: isTicket, ticket: g.ticket})
		}
		if !m.on(OneTransaction) {
			g.step = 1
			return reply{}, false
		}
	}
	v.push(elem{kind: isClaim, who: g.who, seq: g.seq, generation: g.generation, inc: g.inc})
	k := v.sess[g.who]
	switch {
	case g.ticket == 0,
		v.inc != g.inc && m.on(Marker),
		(k.st == absent || k.generation != g.generation || v.tomb[g.who]&(1<<g.seq) != 0) && m.on(Session),
		v.run != g.run && m.on(RunID),
		v.unchecked != 0 && m.on(Checked):
		return reply{kind: rSlow}, true
	case v.n != 2 && m.on(Length):
		return reply{rSlow, g.ticket, 0}, true
	}
	return reply{rGranted, g.ticket, 0}, true
}

// known does the checks of the scripts of a session; it returns 0 if they may go on.
func (m *search) known(s *state, g *msg) uint8 {
	if !m.begin(s, false, g.inc) || s.srv.inc != g.inc {
		return rReset
	}
	if k := s.srv.sess[g.who]; !m.lives(&s.srv, g.who) || k.generation != g.generation && m.on(Generation) {
		return rGone
	}
	return 0
}

// attempt is the attempt script, which a poll runs too.
func (m *search) attempt(s *state, g *msg) reply {
	if r := m.known(s, g); r != 0 {
		return reply{kind: r}
	}
	v := &s.srv
	if v.tomb[g.who]&(1<<g.seq) != 0 {
		return reply{kind: rAbsent}
	}
	m.refresh(v)
	at := -1
	for i := 0; i < int(v.n); i++ {
		e := &v.list[i]
		if e.kind != isClaim || e.who != g.who || e.seq != g.seq {
			continue
		}
		old := e.inc != v.inc || e.generation != g.generation
		switch {
		case !v.paired(i):
			v.remove(i)
			i--
		case old && m.on(NotAdopted), !e.byScript() && v.list[i-1].ticket != g.ticket && m.on(KnownTicket):
			v.remove(i)
			v.remove(i - 1)
			i -= 2
		case at < 0:
			e.inc, e.generation = v.inc, g.generation
			at = i
		}
	}
	if at < 0 {
		m.refill(s)
		v.push(elem{kind: isTicket, ticket: v.take()})
		v.push(elem{kind: isClaim, who: g.who, seq: g.seq, generation: g.generation, inc: g.inc, since: 1})
		at = int(v.n) - 1
	}
	own, ticket := v.list[at], v.list[at-1].ticket
	if head := m.refresh(v); v.grace == 0 && head == 1 && v.list[0].ticket == ticket && v.list[1] == own && !(m.shared(v) && own.kind == isClaim) {
		return reply{rGranted, ticket, own.since}
	}
	return reply{rQueued, ticket, own.since}
}

// withdraw is the withdraw script.
func (m *search) withdraw(s *state, g *msg) reply {
	if r := m.known(s, g); r != 0 {
		return reply{kind: r}
	}
	v := &s.srv
	if g.kind == mTombstone {
		v.tomb[g.who] |= 1 << g.seq
	}
	m.removeAll(v, g.who, g.seq)
	m.wake(s)
	return reply{kind: rOK}
}

func (m *search) removeAll(v *server, who, seq uint8) {
	for i := 0; i < int(v.n); i++ {
		if e := v.list[i]; e.kind == isClaim && e.who == who && e.seq == seq {
			pair := v.paired(i)
			v.remove(i)
			i--
			if pair {
				v.remove(i)
				i--
			}
		}
	}
}

// release is the pipeline of a fast release: two LREM, the ticket first, and LLEN. It proves
// nothing about the server.
func (m *search) release(s *state, g *msg) (reply, bool) {
	v := &s.srv
	ticket := elem{kind: isTicket, ticket: g.ticket}
	own := elem{kind: isClaim, who: g.who, seq: g.seq, generation: g.generation, inc: g.inc, since: g.since}
	g.step++
	switch {
	case g.step == 1 && !m.on(ByValue):
		for range min(2, v.n) {
			v.remove(0)
		}
		g.run = 2
	case g.step == 1:
		g.run = bit(v.lrem(ticket))
	case g.step == 2 && !m.on(ByValue):
	case g.step == 2:
		g.run += bit(v.lrem(own))
	default:
		r := reply{rOK, v.n, 0}
		if g.run != 2 {
			r.kind = rNotThere
		}
		return r, true
	}
	return reply{}, false
}

// wake notifies the holder, if its claim was queued.
func (m *search) wake(s *state) {
	v := &s.srv
	if m.refresh(v) != 1 || v.grace != 0 || v.list[1].kind != isClaim {
		return
	}
	e := &v.list[1]
	if e.inc != v.inc && m.on(NotAdopted) {
		return // its client must attempt again, or reclaim
	}
	c := &s.cl[e.who].claims[e.seq]
	if c.st == idle || c.st >= releasing {
		return // it would mean nothing
	}
	m.handOver(s, c)
}

// Parts of a handoff, after which a script may end with an error.
const (
	beforeAll uint8 = iota + 1
	unqueued
	half // the holder is written, or notified, but not both
)

// handOver removes the first claim, c, from the queue, writes it as the holder, and notifies its client. One that
// was granted before is the holder already.
func (m *search) handOver(s *state, c *claim) {
	v := &s.srv
	ticket, e := v.list[0], v.list[1]
	holds := c.st == held || c.phase == answered && c.reply.kind == rGranted || s.pushed(int(e.who), int(e.seq))
	if m.stop == beforeAll || m.stop != 0 && holds {
		return
	}
	e.since = 3 - e.since
	v.list[1] = e
	if m.stop == unqueued || m.stop == half && !m.on(NotifyLast) {
		v.remove(1)
		v.remove(0)
	}
	if c.st == held || m.stop == unqueued || m.stop == half && m.on(NotifyLast) {
		return
	}
	s.send(msg{kind: mPush, who: e.who, seq: e.seq, inc: v.inc, ticket: ticket.ticket, since: e.since})
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
