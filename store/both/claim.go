// SPDX-License-Identifier: Apache-2.0

package both

import (
	"sync"

	"github.com/fencelock/fencelock/driver"
)

// claim is what this process knows of one claim of a session, beyond what the stores know. The mutex of
// its claims guards it.
type claim struct {
	// asked is set when the next store may have the claim, and reported when the caller has got
	// the answer that it is granted.
	asked, reported bool
	// old is the old store's token, which a reclaim needs; granted is set when there is one.
	old     driver.Token
	granted bool
	// raised is the token that later ones of the old store are above.
	raised driver.Token
	// unsure is set when a call that Await made may still be on its way. The caller does not know of
	// it, so the withdrawal leaves a tombstone by itself.
	unsure bool
	// foundOld and foundNext are what withdrawals have found so far.
	foundOld, foundNext driver.Removed
}

// claims are those of one session. They outlive the value that Open returned, because a session that
// is opened again reclaims with the old store's tokens.
type claims struct {
	mu sync.Mutex
	by map[uint64]*claim
}

// get returns a copy of the claim, and whether it is known.
func (all *claims) get(seq uint64) (claim, bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if c := all.by[seq]; c != nil {
		return *c, true
	}
	return claim{}, false
}

// change changes the claim, which is made if it is not known.
func (all *claims) change(seq uint64, f func(*claim)) claim {
	all.mu.Lock()
	defer all.mu.Unlock()
	c := all.by[seq]
	if c == nil {
		c = &claim{}
		all.by[seq] = c
	}
	f(c)
	return *c
}

// drop removes the claim.
func (all *claims) drop(seq uint64) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.by, seq)
}

// removed is what a withdrawal found, from what the stores found. A claim that its caller held and one of
// the stores had not was lost.
func removed(old, next driver.Removed, reported bool) driver.Removed {
	switch {
	case old == driver.WasBroken || next == driver.WasBroken:
		return driver.WasBroken
	case old == driver.WasGranted && next == driver.WasGranted:
		return driver.WasGranted
	case reported || old == driver.WasAbsent && next == driver.WasAbsent:
		return driver.WasAbsent
	}
	return driver.WasQueued
}
