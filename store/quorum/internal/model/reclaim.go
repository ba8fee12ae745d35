// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/quorum/internal/vote"
)

// Stages of the session of the first acquisition, which is reopened as a whole when too few
// nodes have its claim.
const (
	normal int8 = iota
	reopening
	reclaiming
)

// Messages of the first acquisition to a node. There is one of each kind at most.
const (
	callMessage = iota // an attempt or a withdrawal
	backMessage
	allMessage
)

// Answers to a reclaim that are on their way back.
const (
	putBack int8 = dropped + 1 + iota
	notPutBack
)

// reclaims is what the first acquisition remembers of data losses.
type reclaims struct {
	stage int8
	stale [3]uint8       // nodes that were opened again since a call, back or all was sent there
	fresh uint8          // nodes kept alive since the renewal that the lease counts from
	lives uint8          // nodes where the session lives as long as the lease
	ended uint8          // nodes that ended the session
	rests uint8          // nodes that waited for the lease when the renewal began
	lost  bool           // the lease is lost: it did not come back
	all   [maxNodes]int8 // the reclaim of the session as a whole
	back  [maxNodes]int8 // the reclaim on one node that was opened again
	with  uint8          // nodes whose back has the claim; the others only drop it
	tomb  uint8          // nodes whose withdrawal leaves a tombstone
}

// alive reports whether a node has the session of the first acquisition.
func (c *attempt) alive(n int) bool { return has(c.session, n) }

// accepts reports whether a node executes what was sent under one of the sessions there: not
// what was sent before the session was opened again (R10).
func (c *attempt) accepts(n, message int) bool { return c.alive(n) && !has(c.re.stale[message], n) }

// current reports whether the session on a node is the one that a message was sent under.
func (c *attempt) current(n, message int) bool {
	return c.link[n].Open() && !has(c.re.stale[message], n)
}

// send notes that a message is sent to a node.
func (c *attempt) send(n, message int) { c.re.stale[message] &^= 1 << n }

// outdate notes that the session on a node is another one from now on.
func (c *attempt) outdate(n int) {
	for message, inFlight := range [3]bool{c.at(n).Busy() || c.ask[n] == flying, c.re.back[n] != unsent, c.re.all[n] != unsent} {
		if inFlight {
			c.re.stale[message] |= 1 << n
		}
	}
}

// lose lets the first acquisition find out that its session has ended on a node, or that
// the node lost its data. A node that lost its data does not count (R11).
func (m *search) lose(c *attempt, n int) {
	if !c.link[n].Open() || c.alive(n) {
		return
	}
	reset := !has(c.re.ended, n)
	c.link[n] = c.link[n].Lost(reset)
	held := c.phase == granted
	c.put(n, c.at(n).SessionLost(reset, held, has(c.counts, n)))
	c.kept &^= 1 << n
	if m.Rules[11] || !reset {
		c.counts &^= 1 << n
	}
}

// sessionAt lets a node answer what the session of the first acquisition asks it.
func (m *search) sessionAt(s state, n int) {
	c := &s.att[0]
	switch {
	case c.link[n].Open() && !c.alive(n):
		t := s
		m.lose(&t.att[0], n)
		m.reach(t, action{"learns of the end on", 0, int8(n), 0})
	case !c.link[n].Open():
		t := s
		t.att[0].reopenAt(n)
		m.reach(t, action{"reopens on", 0, int8(n), 0})
	case !has(c.kept, n) && (c.renew == flying || c.re.stage == reopening):
		t := s
		t.att[0].kept |= 1 << n
		t.att[0].re.lives |= 1 << n
		m.reach(t, action{"is kept alive by", 0, int8(n), 0})
	}
	if c.phase == granted && c.re.stage == normal && !has(c.counts, n) && has(c.re.fresh, n) && c.link[n].Open() &&
		c.voteAt(n) == (vote.Vote{State: vote.Yes, Token: driver.Token(c.token)}) {
		t := s
		t.att[0].counts |= 1 << n
		m.reach(t, action{"counts late", 0, int8(n), 0})
	}
	if c.phase == granted && c.re.stage == normal && !has(c.counts, n) && has(c.re.fresh, n) && c.link[n].Open() && c.at(n).Regains() {
		t := s
		t.att[0].counts |= 1 << n
		m.reach(t, action{"counts again", 0, int8(n), 0})
	}
	m.backAt(s, n)
	m.allAt(s, n)
}

func (c *attempt) reopenAt(n int) {
	c.link[n], _ = c.link[n].Opening()
	c.link[n] = c.link[n].Opened()
	c.session |= 1 << n
	c.re.ended &^= 1 << n
	c.re.fresh |= 1 << n
	c.re.lives |= 1 << n
	c.outdate(n)
	if c.renew == flying || c.re.stage == reopening {
		c.kept |= 1 << n
	}
}

// backAt puts the claim back on one node that lost its data, and makes it drop what it
// should not have.
func (m *search) backAt(s state, n int) {
	c := &s.att[0]
	t := s
	d := &t.att[0]
	switch {
	case c.re.back[n] == unsent && c.link[n] == vote.Owing && c.re.stage == normal && c.re.all[n] != flying:
		d.re.back[n] = flying
		d.send(n, backMessage)
		if d.re.with &^= 1 << n; c.phase == granted && c.at(n).Lost > 0 {
			if v, ok := d.at(n).Reclaim(); ok {
				d.re.with |= 1 << n
				d.put(n, v)
			}
		}
		m.reach(t, action{"puts back on", 0, int8(n), 0})
	case c.re.back[n] == flying && !c.accepts(n, backMessage):
		d.re.back[n] = unsent
		m.lose(d, n)
		d.endedAt(n, has(c.re.with, n), false)
		m.reach(t, action{"cannot put back on", 0, int8(n), 0})
	case c.re.back[n] == flying:
		d.re.back[n] = m.takeBack(&t, n, has(c.re.with, n))
		m.reach(t, action{"is put back on", 0, int8(n), d.re.back[n]})
	case c.re.back[n] >= putBack:
		m.hearAt(s, n, true)
		m.hearAt(s, n, false)
	}
}

// hearAt lets the first acquisition hear what was put back. One that cannot be marked yet does not count.
func (m *search) hearAt(s state, n int, marked bool) {
	c := &s.att[0]
	current := c.current(n, backMessage) || !m.Rules[12]
	c.endedAt(n, has(c.re.with, n), false)
	if v := c.at(n); current && !v.Busy() && v.Lost > 0 && has(c.re.with, n) && v.Try == 0 {
		v, share := v.OnReclaimed(c.re.back[n] == putBack, driver.Token(c.token), false)
		switch {
		case share != vote.FullShare || c.phase != granted:
		case marked && has(c.re.fresh, n) && c.re.stage == normal:
			c.counts |= 1 << n
		default:
			v = v.Suspend(true)
		}
		c.put(n, v)
	}
	if c.re.back[n] = unsent; current {
		c.link[n] = c.link[n].PutBack()
	}
	m.reach(s, action{"hears of it from", 0, int8(n), 0})
}

// endedAt ends a reclaim on a node. Claims are reclaimed on their first try only.
func (c *attempt) endedAt(n int, claim, unknown bool) {
	if claim {
		c.put(n, c.at(n).ReclaimEnded(0, unknown))
	}
}

// takeBack lets a node execute a reclaim: it confirms what it has, takes back what it lost
// while it grants nothing new, and drops what is not in the reclaim.
func (m *search) takeBack(s *state, n int, claim bool) int8 {
	c, nd := &s.att[0], &s.node[n]
	if !claim {
		if nd.owner == 0 && nd.old {
			nd.owner, nd.token, nd.old = none, 0, false
		}
		return notPutBack
	}
	if nd.owner == none && nd.grace && !nd.tomb {
		nd.owner, nd.token = 0, int8(c.at(n).Reclaimed(driver.Token(c.token)))
	}
	if nd.owner != 0 {
		return notPutBack
	}
	nd.old = false
	return putBack
}

// allAt lets a node answer the reclaim of the session as a whole.
func (m *search) allAt(s state, n int) {
	c := &s.att[0]
	if c.re.all[n] != flying && c.re.all[n] != dropped {
		return
	}
	answer, late := unsent, c.re.all[n] == dropped
	if c.accepts(n, allMessage) {
		answer = m.takeBack(&s, n, true)
	} else {
		m.lose(c, n)
	}
	if c.re.all[n] = answer; late {
		c.re.all[n] = unsent
	} else {
		c.endedAt(n, true, false)
	}
	m.reach(s, action{"reclaim arrives at", 0, int8(n), answer})
}

// reopen is what the first acquisition does when too few nodes have its claim.
func (m *search) reopen(s state) {
	c := &s.att[0]
	switch {
	case c.re.stage == normal && count(c.counts) < m.majority(0) && !c.re.lost:
		c.re.stage, c.kept, c.re.rests = reopening, 0, m.waiting(&s)
		m.reach(s, action{"reopens its session", 0, none, 0})
	case c.re.stage == reopening && count(c.kept) >= m.majority(0):
		c.re.stage, c.re.fresh = reclaiming, c.kept
		for n := range m.Nodes {
			c.put(n, c.at(n).Suspend(has(c.counts, n)))
			if c.link[n].Open() {
				v, ok := c.at(n).Reclaim()
				if !ok {
					c.re.all[n] = notPutBack
					continue
				}
				if !m.Rules[14] {
					v.Asked--
				}
				c.put(n, v)
				c.re.all[n] = flying
				c.send(n, allMessage)
			}
		}
		c.counts = 0
		m.reach(s, action{"reclaims", 0, none, 0})
	case c.re.stage == reclaiming:
		got := 0
		for n := range m.Nodes {
			if c.re.all[n] >= putBack {
				got++
			}
		}
		if got >= m.majority(0) {
			m.reclaimed(s)
		}
	}
}

// reclaimed counts what the nodes answered. Answers that come later are not waited for.
func (m *search) reclaimed(s state) {
	c := &s.att[0]
	nodes, later := uint8(0), uint8(0)
	for n := range m.Nodes {
		if c.re.all[n] >= putBack && (c.current(n, allMessage) || !m.Rules[12]) {
			v, share := c.at(n).OnReclaimed(c.re.all[n] == putBack, driver.Token(c.token), false)
			if share == vote.FullShare && !has(c.re.fresh, n) {
				v = v.Suspend(true)
			}
			c.put(n, v)
			switch {
			case !has(c.re.fresh, n) && m.Rules[13]:
			case share == vote.FullShare || share == vote.LaterShare && !m.Rules[16]:
				nodes |= 1 << n
			case share == vote.LaterShare:
				later |= 1 << n
			}
		}
		if c.re.all[n] == flying && !m.Timed {
			c.re.all[n] = dropped
			c.endedAt(n, true, true)
		} else {
			c.re.all[n] = unsent
		}
	}
	c.re.stage = normal
	if count(nodes) < m.majority(0) {
		c.re.lost = true
		m.finish(s, 0, "has lost its lease")
		return
	}
	c.counts = nodes | later
	m.extended(&s)
	m.reach(s, action{"has its lease again", 0, none, int8(nodes)})
}

// waiting are the nodes that grant nothing new before the lease of the first acquisition
// has ended.
func (m *search) waiting(s *state) (nodes uint8) {
	for n := range m.Nodes {
		if has(s.node[n].rest, 0) {
			nodes |= 1 << n
		}
	}
	return nodes
}

// extended notes that the lease lives longer than any node waits that lost its data before
// the renewal began.
func (m *search) extended(s *state) {
	s.att[0].re.lives = s.att[0].re.fresh
	for i := range m.attempts() {
		s.att[i].early = s.att[i].phase == asking || s.att[i].phase == lifting
	}
	for n := range m.Nodes {
		if has(s.att[0].re.rests, n) {
			s.node[n].rest &^= 1
		}
	}
}

// renewTimed begins a renewal, and ends it when enough nodes have kept it.
func (m *search) renewTimed(s state) {
	c := &s.att[0]
	switch {
	case c.re.stage != normal:
	case c.renew == unsent:
		c.renew, c.kept, c.re.rests = flying, 0, m.waiting(&s)
		m.reach(s, action{"renewal begins", 0, none, 0})
	case c.renew == flying && m.renewed(c):
		c.renew, c.re.fresh = answered, c.kept
		m.extended(&s)
		m.reach(s, action{"is renewed", 0, none, c.token})
	}
}

// expire lets a node end a session that was not kept alive there since the lease was renewed.
// That takes most of a TTL. An attempt waits for NodeTimeout at most, which is far less.
func (m *search) expire(s state, n int) {
	c := &s.att[0]
	for i := range m.attempts() {
		if s.att[i].early && s.att[i].phase != granted && s.att[i].phase != over {
			return
		}
	}
	if has(c.re.lives, n) || !c.alive(n) {
		return
	}
	c.session &^= 1 << n
	c.re.ended |= 1 << n
	if s.node[n].owner == 0 {
		s.node[n].owner, s.node[n].token, s.node[n].old = none, 0, false
	}
	m.reach(s, action{"session of c0 ends on", none, int8(n), 0})
}

// held is a state in which the first acquisition is granted on the first nodes. The others
// were not reached.
func (m *search) held(s state, nodes int) state {
	c := &s.att[0]
	c.phase, c.token = granted, 1
	for n := range m.Nodes {
		if n >= nodes {
			c.put(n, c.at(n).Skip())
			continue
		}
		c.askAt(n)
		c.repliedAt(n, m.grantAt(&s, 0, n, 1))
		c.ask[n] = answered
		c.counts |= 1 << n
	}
	return s
}
