// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"slices"

	"github.com/fencelock/fencelock/driver"
)

// limit is what SetLimit stored with a lock.
type limit struct {
	// Limit replaces the limit of the claims, unless it is 0.
	Limit int64 `json:"limit"`
	// Upto is the place of the last claim that was granted when the limit was
	// stored: what was granted then stays granted.
	Upto *int32 `json:"upto,omitempty"`
}

// lockState is a lock as its claims and its stored limit describe it.
type lockState struct {
	granted, waiting []node
	admitted         []driver.Grant // granted, as the admission rule takes them
	limit            limit
	pinned           bool // something is stored with the lock
	// strange is why the claims do not show who holds the lock, if another program has a
	// child there that does not fit.
	strange error
}

// evaluate decides who holds a lock. It is a function of the queued claims and
// nothing else, so every process that sees the same children decides the same, and
// no notification is needed: the claims in front are granted for as long as each fits
// beside those before it, and a claim that does not fit blocks those behind.
//
// That a granted claim stays granted is a property of the rule, not of a record:
// claims come in at the end only, and one that leaves makes room. Two things would
// break it. A claim that joins a grant from behind (Reentry) therefore gets the
// place of that grant, and a limit that is lowered notes who was granted before.
func evaluate(claims []node, lim limit) lockState {
	l := lockState{limit: lim}
	for i, n := range claims {
		if !l.fits(n) {
			l.waiting = slices.Clone(claims[i:])
			break
		}
		l.granted = append(l.granted, n)
		l.admitted = append(l.admitted, driver.Grant{Mode: n.mode, Weight: n.weight, Reentry: n.reentry})
	}
	return l
}

// fits reports whether a claim can be granted beside those before it. A claim that joined a
// grant has the place of that grant.
func (l *lockState) fits(n node) bool {
	switch {
	case slices.ContainsFunc(l.granted, func(g node) bool { return g.place == n.place }):
		return true
	case len(l.granted) > 0 && n.mode == driver.Exclusive:
		return false
	}
	t := n.terms()
	if l.limit.Upto != nil && before(n.place, *l.limit.Upto) <= 0 {
		t.Limit = 0 // granted before the limit was stored
	}
	return driver.Fits(l.admitted, t, l.limit.Limit)
}

// admits reports whether a claim that has no place yet would be granted at the end.
func (l *lockState) admits(n node) bool { return driver.Fits(l.admitted, n.terms(), l.limit.Limit) }

// joinable returns a claim of the grant that an exclusive claim may join.
func (l *lockState) joinable(n node) (node, bool) {
	if !driver.Joins(l.admitted, n.terms()) {
		return node{}, false
	}
	return l.granted[0], true
}

// holds reports whether a claim is granted.
func (l *lockState) holds(session string, seq uint64) (node, bool) {
	return find(l.granted, session, seq)
}

// waits returns how many claims are queued before this one, or -1.
func (l *lockState) waits(session string, seq uint64) int {
	return slices.IndexFunc(l.waiting, func(n node) bool { return n.is(session, seq) })
}

func find(nodes []node, session string, seq uint64) (node, bool) {
	i := slices.IndexFunc(nodes, func(n node) bool { return n.is(session, seq) })
	if i < 0 {
		return node{}, false
	}
	return nodes[i], true
}
