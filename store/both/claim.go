// SPDX-License-Identifier: Apache-2.0

package both

import (
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// claim is what this process knows of one claim of a session, beyond what the stores know. The mutex of
// its claims guards it.
type claim struct {
	// sent is set when the old store may have the claim, asked when the new store may, and reported when the caller has got
	// the answer that it is granted.
	sent, asked, reported bool
	// rests is zero, or when a grace period of the new store ends. No store has the claim then.
	rests time.Time
	// old is the old store's token, which a reclaim needs; granted is set when there is one.
	old     driver.Token
	granted bool
	// raised is the token that later ones of the old store are above.
	raised driver.Token
	// at is when both stores had granted the claim, minHold that of its terms, and end
	// ends the old grant at its MaxHold.
	at      time.Time
	minHold time.Duration
	end     *time.Timer
	// unsure is set when a call may still be on its way. The caller does not know of those that Await made,
	// so the withdrawal leaves a tombstone by itself.
	unsure bool
	// foundOld and foundNext are what withdrawals have found so far.
	foundOld, foundNext driver.Removed
	// name is that of the lock, and opened counts the openings of the session up to the last attempt or reclaim.
	name   string
	opened uint64
}

// keepOld is how long the old lock stays taken after a withdrawal: as long as the new store keeps
// its lock by the MinHold.
func (c *claim) keepOld(w driver.Withdrawal) time.Duration {
	if !c.reported || c.minHold == 0 {
		return w.KeepFor
	}
	return max(w.KeepFor, c.minHold-time.Since(c.at))
}

// claims are those of one session. They outlive the value that Open returned, because a session that
// is opened again reclaims with the old store's tokens. Only an attempt makes one: an answer that comes
// after the withdrawal must not, because no other withdrawal would follow.
type claims struct {
	mu sync.Mutex
	by map[uint64]*claim
	// marked are the claims whose withdrawal leaves a mark in both stores, from before it is sent; true if both have
	// confirmed it. If one of the stores loses its data before the next renewal, they are reclaimed there.
	marked map[uint64]bool
	// opened counts the openings of the session.
	opened uint64
	closed bool
	// old and next are the last values of the session in the two stores. That of one store may be newer than what
	// the caller has: the other store then failed to open the session again.
	old, next driver.Session
}

func newClaims() *claims { return &claims{by: map[uint64]*claim{}, marked: map[uint64]bool{}} }

// last returns the last values of the session in the two stores.
func (all *claims) last() (old, next driver.Session) {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.old, all.next
}

// open notes that the session was opened, for the first time or again.
func (all *claims) open(old, next opened) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.old, all.next = old.drv, next.drv
	all.opened++
	all.closed = false
}

// keep notes what one of the stores opened, and reports whether the session was open before.
func (all *claims) keep(old, next opened) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if old.err == nil {
		all.old = old.drv
	}
	if next.err == nil {
		all.next = next.drv
	}
	return all.opened > 0 && !all.closed
}

// begin returns a copy of the claim of an attempt, which is made if it is not known.
func (all *claims) begin(seq uint64, name string) claim {
	all.mu.Lock()
	defer all.mu.Unlock()
	c := all.by[seq]
	if c == nil {
		c = &claim{name: name}
		all.by[seq] = c
	}
	c.opened = all.opened
	return *c
}

// reclaim returns a copy of the claim of a reclaim, and whether it is known.
func (all *claims) reclaim(seq uint64) (claim, bool) {
	return all.change(seq, func(c *claim) {
		c.opened = all.opened
		c.raised = 0 // the old store may have lost that its tokens were raised
	})
}

// leftOver returns the withdrawals of the claims that were neither attempted nor reclaimed since the session was opened
// again. The store that has not lost its data would keep them as long as the session lives.
func (all *claims) leftOver() (left []driver.Withdrawal) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for seq, c := range all.by {
		if _, marked := all.marked[seq]; c.opened < all.opened && !marked {
			left = append(left, driver.Withdrawal{Seq: seq, Name: c.name})
		}
	}
	return left
}

// get returns a copy of the claim, and whether it is known.
func (all *claims) get(seq uint64) (claim, bool) { return all.change(seq, func(*claim) {}) }

// change changes the claim if it is known, and returns a copy of it and whether it is.
func (all *claims) change(seq uint64, f func(*claim)) (claim, bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	c := all.by[seq]
	if c == nil {
		return claim{}, false
	}
	f(c)
	return *c, true
}

// drop removes the claim.
func (all *claims) drop(seq uint64) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.dropLocked(seq)
}

// dropLocked removes the claim. all.mu must be held.
func (all *claims) dropLocked(seq uint64) {
	if c := all.by[seq]; c != nil && c.end != nil {
		c.end.Stop()
	}
	delete(all.by, seq)
	delete(all.marked, seq)
}

// close removes every claim: nothing is reclaimed any more, even if Close is called again.
func (all *claims) close() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.closed = true
	for seq := range all.by {
		all.dropLocked(seq)
	}
}

// mark notes that a withdrawal leaves a mark in both stores, or has left it.
func (all *claims) mark(seq uint64, confirmed bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	c := all.by[seq]
	if c == nil {
		return
	}
	if confirmed {
		c.foundOld, c.foundNext = driver.WasAbsent, driver.WasAbsent // a repeated withdrawal finds nothing
	}
	if c.end != nil {
		c.end.Stop()
	}
	all.marked[seq] = confirmed
}

// isMarked reports whether a withdrawal of the claim leaves a mark.
func (all *claims) isMarked(seq uint64) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	_, is := all.marked[seq]
	return is
}

// unmark notes that the claim has been reclaimed: if a store gave it back, it is to be withdrawn again.
func (all *claims) unmark(seq uint64) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.marked, seq)
}

// allMarked returns the claims that have left their marks.
func (all *claims) allMarked() (seqs []uint64) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for seq, confirmed := range all.marked {
		if confirmed {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}

// dropMarked removes those of the claims that still count as having left their marks: a renewal has shown that
// both stores have their data.
func (all *claims) dropMarked(seqs []uint64) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, seq := range seqs {
		if all.marked[seq] {
			all.dropLocked(seq)
		}
	}
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
