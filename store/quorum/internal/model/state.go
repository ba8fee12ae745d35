// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/fencelock/fencelock/store/quorum/internal/vote"

const (
	maxNodes    = 5
	maxAttempts = 3
	none        = -1
)

// Rules are the rules of the protocol by number.
type Rules [17]bool

// All returns all rules but those given, by number.
func All(but ...int) (r Rules) {
	for i := 1; i < len(r); i++ {
		r[i] = true
	}
	for _, i := range but {
		r[i] = false
	}
	return r
}

// Scene is a small world and what may happen in it.
type Scene struct {
	Name  string
	Nodes int
	// Attempts is the number of acquisitions, 2 if not given.
	Attempts int
	// Lists are the nodes each acquisition knows; nil is all of them.
	Lists [][]int
	// Counters are how far the counters of the nodes may differ at the start.
	Counters int8
	// Vanish lets a record vanish at any moment.
	Vanish bool
	// Dup lets one attempt be executed a second time on one node.
	Dup bool
	// Losses is how many times a node may lose its data.
	Losses int8
	// Release lets holders release, and checks what is left behind.
	Release bool
	// Renew lets the first acquisition join a node and renew.
	Renew bool
	// Reclaim lets the first acquisition find out that a node lost its data, reopen its
	// session there, reclaim its claim and renew.
	Reclaim bool
	// Bound binds what is sent to a session: what arrives after the session ended on
	// a node is refused there (R10). Tokens need no such thing.
	Bound bool
	// Timed checks exclusion; nothing may vanish by itself then.
	Timed bool
	// Rules that this scene shows to be needed.
	Shows []int
}

// Phases of an attempt.
const (
	idle int8 = iota
	asking
	lifting
	granted
	over
)

// Messages to a node: not sent, under way, answered.
const (
	unsent int8 = iota
	flying
	answered
	dropped // its answer is not waited for; it may still arrive
)

// node is what a node keeps for the one lock.
type node struct {
	owner int8 // who has it
	token int8 // with which token
	ctr   int8 // the highest token given out
	cfg   int8 // the list it was marked with, 0 none
	// rest are the attempts that began before it lost its data: it grants nothing new
	// until all of them are over.
	rest uint8
	old  bool // what it has survived a data loss
	// grace is set from a data loss until the next grant: so long it may take claims back.
	grace bool
	tomb  bool // it rejects what comes of the first acquisition
}

// attempt is one acquisition, with its own id.
type attempt struct {
	phase  int8
	token  int8
	floor  int8
	before uint8 // who had been granted when it began
	// counts are the nodes that count for it.
	counts uint8
	slot   [maxNodes]slot // what it knows of the nodes
	link   [maxNodes]vote.NodeSession
	ask    [maxNodes]int8
	dup    uint8 // nodes on one of which the attempt may be executed again
	lift   [maxNodes]int8
	free   [maxNodes]int8 // the release
	// The first acquisition may join one node and renew once.
	joined  int8  // node + 1
	above   int8  // what the joined node granted with
	raised  uint8 // nodes that were raised above it
	renew   int8
	rbefore uint8
	kept    uint8
	session uint8 // nodes whose session lives
	stale   uint8 // nodes where the first session has ended
	re      reclaims
	early   bool // it began before the lease of the first acquisition was extended last
}

type state struct {
	node   [maxNodes]node
	att    [maxAttempts]attempt
	losses int8
}

func (m *search) attempts() int {
	if m.Attempts == 0 {
		return 2
	}
	return m.Attempts
}

func (m *search) majority(i int) int { return vote.Majority(m.listLen(i)) }

func (m *search) listLen(i int) int {
	if m.Lists == nil {
		return m.Nodes
	}
	return len(m.Lists[i])
}

// knows reports whether a node is in an acquisition's list.
func (m *search) knows(i, n int) bool {
	if m.Lists == nil {
		return true
	}
	for _, k := range m.Lists[i] {
		if k == n {
			return true
		}
	}
	return false
}

func has(set uint8, i int) bool { return set&(1<<i) != 0 }

func count(set uint8) int { return vote.Set(set).Len() }

// starts returns the initial states: counters in falling order, because nodes are
// alike.
func (m *search) starts() (all []state) {
	var s state
	for n := range maxNodes {
		s.node[n].owner = none
	}
	for i := range m.attempts() {
		s.att[i].session = 1<<m.Nodes - 1
		if m.Reclaim && i == 0 {
			s.att[i].re.fresh, s.att[i].re.lives = s.att[i].session, s.att[i].session
		}
		for n := range m.Nodes {
			s.att[i].link[n] = vote.Current
		}
		if m.Lists != nil && m.Rules[7] {
			for _, n := range m.Lists[0] { // those of the first list are at work
				s.node[n].cfg = 1
			}
		}
	}
	if m.Reclaim {
		return []state{m.held(s, m.Nodes), m.held(s, m.majority(0))}
	}
	var rec func(n int, most int8)
	rec = func(n int, most int8) {
		if n == m.Nodes {
			all = append(all, s)
			return
		}
		for c := int8(0); c <= most; c++ {
			s.node[n].ctr = c
			rec(n+1, c)
		}
	}
	rec(0, m.Counters)
	return all
}
