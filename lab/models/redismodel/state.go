// SPDX-License-Identifier: Apache-2.0

package redismodel

const (
	maxClients = 3
	maxClaims  = 2
	maxList    = 16
	maxReady   = 2
	maxLate    = 6
)

// Elements of the list of a lock.
const (
	isTicket uint8 = iota + 1
	isClaim
	isShared // the sentinel of a shared lock
)

// elem is an element of the list: a ticket, or a claim with the bytes that name it.
type elem struct {
	kind, ticket                     uint8
	who, seq, generation, inc, since uint8
}

// byScript reports whether a script wrote the claim. The transaction writes 0 for since, a
// script 1, and each wake changes it.
func (e *elem) byScript() bool { return e.since == 1 || e.since == 2 }

// What the server keeps of a session.
const (
	absent uint8 = iota
	ended        // its field is there, and its end has passed
	alive
)

type session struct {
	st, generation uint8
	// reclaimed is the incarnation in which the session reported that everything is
	// reclaimed.
	reclaimed uint8
	// noted is the end that scripts have noted, and moved the one in the sorted set, 0 if the set
	// has no end. Both are 0 where time is not modeled.
	noted, moved uint8
}

// server is one copy of the data.
type server struct {
	run, repl  uint8 // run id of the process, and the id that changes when a replica is promoted
	inc, mrun  uint8 // the marker: incarnation, 0 for no marker, and run id
	mrepl      uint8 // the marker: the replication id
	unchecked  uint8 // the marker: the time is over for which a check of that id counts
	grace      uint8
	graceEnd   uint8
	now        uint8
	last, base uint8           // the last ticket that was issued, and that of the start of the incarnation
	ready      [maxReady]uint8 // the list of tickets
	sess       [maxClients]session
	tomb       [maxClients]uint8 // a bit for each claim that must not be granted
	readers    uint8             // a bit for each shared grant
	n          uint8
	list       [maxList]elem
}

// What a client knows of a claim.
const (
	idle uint8 = iota
	asking
	slow // the attempt script decides
	queued
	held
	releasing
	leaving
	over
)

// claim is one acquisition, as its client sees it.
type claim struct {
	st, ticket, since, inc uint8
	// unsure is set when an attempt may still arrive.
	unsure uint8
	broken uint8
	phase  uint8 // of the call in flight
	out    msg
	reply  reply
}

// Phases of a call.
const (
	none uint8 = iota
	sent
	answered
)

type client struct {
	generation, inc, run uint8
	seen                 uint8 // the highest incarnation that it was answered in
	trust                uint8 // its trusted deadline has not passed
	fast                 uint8 // it knows that the grace period of inc is over
	until                uint8 // the trusted deadline, where time is modeled
	claims               [maxClaims]claim
	// The keep-alive in flight.
	phase uint8
	out   msg
	reply reply
}

// Messages to the server; push is to a client.
const (
	mFast uint8 = iota + 1
	mAttempt
	mWithdraw
	mTombstone // a withdrawal with a tombstone
	mRelease   // LREM, LREM, LLEN
	mWake
	mPush
	mShare
	mUnshare
	mReclaim
	mKeep // a keep-alive by plain commands
	mKeepScript
)

type msg struct {
	kind, who, seq       uint8
	generation, inc, run uint8
	step, ticket, since  uint8
}

// Replies.
const (
	rGranted uint8 = iota + 1
	rQueued
	rSlow
	rAbsent
	rGone
	rReset
	rOK
	rNotThere
	rConfirmed
	rUndecided
	rRefused
	rKept
	rUnclear // the keep-alive script decides
)

type reply struct{ kind, ticket, since uint8 }

type state struct {
	srv, copy server
	copied    uint8
	// first is the first server with its own data, once a replica has taken over from it.
	first server
	away  uint8
	cl    [maxClients]client
	late  [maxLate]msg // in flight, and no client waits for a reply
	// clock is above every ticket that was ever issued; runs, incs and generations count.
	clock, runs, incs uint8
	generations       [maxClients]uint8
	top               uint8 // the highest ticket of a grant, and fence, so far
	// What has happened, within the bounds of the scene.
	lost, ends, losses, breaks, gives, keeps, stops uint8
}

// coder packs a state into bytes, without the zeros, and back.
type coder struct {
	buf   []byte
	at    int
	zeros uint8
	read  bool
}

func (c *coder) b(xs ...*uint8) {
	for _, x := range xs {
		switch {
		case c.read && c.zeros > 0:
			c.zeros--
			*x = 0
		case c.read:
			*x = c.buf[c.at]
			c.at++
			if *x == 0 {
				c.zeros = c.buf[c.at] - 1
				c.at++
			}
		case *x == 0 && c.zeros > 0 && c.zeros < 255:
			c.zeros++
			c.buf[len(c.buf)-1] = c.zeros
		case *x == 0:
			c.zeros = 1
			c.buf = append(c.buf, 0, 1)
		default:
			c.zeros = 0
			c.buf = append(c.buf, *x)
		}
	}
}

func (c *coder) msg(m *msg) {
	c.b(&m.who, &m.seq, &m.generation, &m.inc, &m.run, &m.step, &m.ticket, &m.since)
}

func (c *coder) server(s *server) {
	c.b(&s.run, &s.repl, &s.inc, &s.mrun, &s.mrepl, &s.unchecked, &s.now, &s.grace, &s.graceEnd, &s.last, &s.base, &s.readers, &s.n)
	for i := range s.ready {
		c.b(&s.ready[i])
	}
	for i := range s.sess {
		c.b(&s.sess[i].st, &s.sess[i].generation, &s.sess[i].reclaimed, &s.sess[i].noted, &s.sess[i].moved, &s.tomb[i])
	}
	for i := range s.n {
		e := &s.list[i]
		c.b(&e.kind, &e.ticket, &e.who, &e.seq, &e.generation, &e.inc, &e.since)
	}
}

func (c *coder) state(s *state) {
	c.server(&s.srv)
	if c.b(&s.copied); s.copied != 0 {
		c.server(&s.copy)
	}
	if c.b(&s.away); s.away != 0 {
		c.server(&s.first)
	}
	for i := range s.cl {
		k := &s.cl[i]
		c.b(&k.generation, &k.inc, &k.run, &k.seen, &k.trust, &k.fast, &k.until, &s.generations[i], &k.phase)
		if k.phase != none {
			c.b(&k.reply.kind, &k.reply.ticket, &k.reply.since, &k.out.kind)
			c.msg(&k.out)
		}
		for j := range k.claims {
			a := &k.claims[j]
			c.b(&a.st, &a.ticket, &a.since, &a.inc, &a.unsure, &a.broken, &a.phase)
			if a.phase != none {
				c.b(&a.reply.kind, &a.reply.ticket, &a.reply.since, &a.out.kind)
				c.msg(&a.out)
			}
		}
	}
	for i := range s.late {
		if c.b(&s.late[i].kind); s.late[i].kind == 0 {
			break
		}
		c.msg(&s.late[i])
	}
	c.b(&s.clock, &s.runs, &s.incs, &s.top, &s.lost, &s.ends, &s.losses, &s.breaks, &s.gives, &s.keeps, &s.stops)
}

// send puts a message in flight that no client waits for. Messages are kept in order,
// because states that differ in their order only are alike.
func (s *state) send(m msg) bool {
	for i := range s.late {
		if s.late[i] == m {
			return true // delivered twice is as good as once: no message counts anything
		}
	}
	if s.late[maxLate-1].kind != 0 {
		return false
	}
	i := maxLate - 1
	for i > 0 && (s.late[i-1].kind == 0 || less(m, s.late[i-1])) {
		s.late[i] = s.late[i-1]
		i--
	}
	s.late[i] = m
	return true
}

func (s *state) drop(i int) {
	copy(s.late[i:], s.late[i+1:])
	s.late[maxLate-1] = msg{}
}

func less(a, b msg) bool { return a.rank() < b.rank() }

func (m msg) rank() (r uint64) {
	for _, x := range [...]uint8{m.kind, m.who, m.seq, m.generation, m.inc, m.run, m.step, m.ticket} {
		r = r<<8 | uint64(x)
	}
	return r
}
