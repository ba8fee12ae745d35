// SPDX-License-Identifier: Apache-2.0

package zkstore

import (
	"slices"

	"github.com/fencelock/fencelock/driver"
)

// limit is what SetLimit stored with a lock.
type limit struct {
	// Limit replaces that of the claims; 0 is none.
	Limit int64 `json:"limit"`
	// Upto is the place of the last claim that was granted when the limit was
	// stored: what was granted then stays granted.
	Upto *int32 `json:"upto,omitempty"`
}

// line is a lock as its claims and its stored limit tell it.
type line struct {
	granted, waiting []node
	limit            limit
	pinned           bool // something is stored with the lock
}

// evaluate decides who holds a lock. It is a function of the claims in line and
// nothing else, so everybody who sees the same children decides the same, and
// nobody has to be told: the claims in front are granted for as long as each fits
// beside those before it, and whoever does not fit blocks those behind.
//
// That a granted claim stays granted is a property of the rule, not of a record:
// claims come in at the end only, and one that leaves makes room. Two things would
// break it. A claim that joins a grant from behind (Reentry) therefore gets the
// place of that grant, and a limit that is lowered notes who was granted before.
func evaluate(claims []node, lim limit) line {
	l := line{limit: lim}
	for i, n := range claims {
		if !l.fits(n) {
			l.waiting = slices.Clone(claims[i:])
			break
		}
		l.granted = append(l.granted, n)
	}
	return l
}

// fits says whether a claim can be granted beside those before it.
func (l *line) fits(n node) bool {
	switch {
	case len(l.granted) == 0:
		return n.mode == driver.Exclusive || l.within(n)
	case n.mode == driver.Exclusive:
		return l.joined(n)
	}
	return !l.exclusive() && l.within(n)
}

// exclusive says whether the lock is held exclusively.
func (l *line) exclusive() bool {
	return slices.ContainsFunc(l.granted, func(g node) bool { return g.mode == driver.Exclusive })
}

// joined says whether a claim has the place of a grant, which it can only have been
// given by joining it.
func (l *line) joined(n node) bool {
	return slices.ContainsFunc(l.granted, func(g node) bool { return g.place == n.place })
}

// joinable returns a claim of the grant that an exclusive claim may join.
func (l *line) joinable(n node) (node, bool) {
	if n.reentry == "" || n.mode != driver.Exclusive || !l.exclusive() || l.granted[0].reentry != n.reentry {
		return node{}, false
	}
	return l.granted[0], true
}

// within says whether a shared claim keeps to its limit, or the stored one.
func (l *line) within(n node) bool {
	if n.limit == 0 || l.limit.Upto != nil && before(n.place, *l.limit.Upto) <= 0 {
		return true
	}
	most := n.limit
	if l.limit.Limit > 0 {
		most = l.limit.Limit
	}
	// A claim heavier than a limit that was lowered takes all of it: it would
	// otherwise stand in everybody's way for ever.
	used := min(n.weight, most)
	for _, g := range l.granted {
		used += min(g.weight, most)
	}
	return used <= most
}

// holds says whether a claim is granted.
func (l *line) holds(session string, seq uint64) (node, bool) { return find(l.granted, session, seq) }

// waits returns how many claims are in line before this one, or -1.
func (l *line) waits(session string, seq uint64) int {
	return slices.IndexFunc(l.waiting, func(n node) bool { return n.is(session, seq) })
}

func find(nodes []node, session string, seq uint64) (node, bool) {
	i := slices.IndexFunc(nodes, func(n node) bool { return n.is(session, seq) })
	if i < 0 {
		return node{}, false
	}
	return nodes[i], true
}
