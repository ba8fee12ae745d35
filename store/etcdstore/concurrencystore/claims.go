// SPDX-License-Identifier: Apache-2.0

package concurrencystore

import (
	"slices"
	"sync"
)

// claims is what a session knows of its claims and of the keys that they use. A key is used again, because etcd scans all keys that
// ever were in a range until the next compaction: a claim has a slot, a small number, and slot 0 is the key that the others write.
type claims struct {
	mu sync.Mutex
	// handle is the revision at which this value of the session became the latest one, see session.own. As long as it is
	// the latest, its slots are right.
	handle int64
	// resumed is set if an earlier value of the session may have written keys: those of a lock are read before one is written.
	resumed bool
	// slots has, by the name of the lock, which claim uses which slot; 0 is free.
	slots map[string][]uint64
	known map[uint64]*claim
	// touched has the claims that a resumed session was asked about. It is nil if there is nothing to drop.
	touched map[uint64]bool
}

// state is where a claim stood when the session last read it.
type state uint8

const (
	sent state = iota // an attempt may be on its way
	queued
	granted
)

// claim is a claim that the session was asked for.
type claim struct {
	name     string
	slot     int
	created  int64 // revision of its key; 0 if it is not known
	state    state
	position int
	// leaving is how many removals were sent and may have been done: if the key is not there, one of them may have removed it.
	leaving int
}

// maxIdle bounds how many names without claims a resumed session remembers.
const maxIdle = 1000

func newClaims() *claims {
	return &claims{slots: map[string][]uint64{}, known: map[uint64]*claim{}}
}

// opened notes that this value of the session is the latest since a revision. After an earlier value, the last Reclaim drops what
// the session was not asked about.
func (c *claims) opened(revision int64, resumed bool) {
	if !resumed {
		c.handle = revision
		return
	}
	c.touched = map[uint64]bool{}
	c.took(revision)
}

// took notes that this value of the session is the latest again: the keys of all locks may have changed.
func (c *claims) took(revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handle, c.resumed, c.slots = revision, true, map[string][]uint64{}
}

// latest returns the revision since which this value is the latest, as far as it knows.
func (c *claims) latest() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.handle
}

// take returns the slot of a claim, and the revision that makes it right. ok is false if the keys of the lock must be read first.
func (c *claims) take(name string, seq uint64) (slot int, handle int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touchLocked(seq)
	used, known := c.slots[name]
	if c.resumed && !known {
		return 0, 0, false
	}
	if slot = slices.Index(used, seq); slot < 0 {
		slot = slices.Index(used, 0)
	}
	if slot < 0 {
		slot = len(used)
	}
	c.useLocked(name, slot, seq)
	return slot, c.handle, true
}

// touchLocked notes that the session was asked about a claim. c.mu must be held.
func (c *claims) touchLocked(seq uint64) {
	if c.touched != nil {
		c.touched[seq] = true
	}
}

// useLocked notes the slot of a claim. c.mu must be held.
func (c *claims) useLocked(name string, slot int, seq uint64) {
	used := c.slots[name]
	if old := slices.Index(used, seq); old >= 0 {
		used[old] = 0
	}
	for len(used) <= slot {
		used = append(used, 0)
	}
	used[slot] = seq
	c.slots[name] = used
	if k := c.known[seq]; k == nil {
		c.known[seq] = &claim{name: name, slot: slot, position: -1}
	} else {
		k.slot = slot
	}
}

// learn notes which claims use the keys of a lock, as they were read. A lock that is known is not: a claim may have gone since.
func (c *claims) learn(name string, own []entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.slots[name]; known {
		return
	}
	used := make([]uint64, 0, len(own))
	for i := range own {
		for len(used) <= own[i].slot {
			used = append(used, 0)
		}
		used[own[i].slot] = own[i].id.Seq
	}
	c.slots[name] = used
}

// use notes that a claim uses a slot.
func (c *claims) use(name string, slot int, seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.useLocked(name, slot, seq)
}

// used reports whether a claim uses a slot.
func (c *claims) used(name string, slot int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	used := c.slots[name]
	return slot < len(used) && used[slot] != 0
}

// touch notes that the session was asked about a claim.
func (c *claims) touch(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touchLocked(seq)
}

// stands notes where a claim stands.
func (c *claims) stands(seq uint64, created int64, s state, position int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.known[seq]; k != nil {
		k.created, k.state, k.position = created, s, position
	}
}

// get returns what is known of a claim.
func (c *claims) get(seq uint64) (claim, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.known[seq]
	if k == nil {
		return claim{}, false
	}
	return *k, true
}

// leave notes that a removal of a claim is sent.
func (c *claims) leave(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.known[seq]; k != nil {
		k.leaving++
	}
}

// stay notes that a removal of a claim did nothing.
func (c *claims) stay(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.known[seq]; k != nil && k.leaving > 0 {
		k.leaving--
	}
}

// drop removes a claim whose key is gone.
func (c *claims) drop(name string, seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, seq)
	delete(c.touched, seq) // an Open that was sent twice is not followed by the Reclaim that ends these notes
	used := c.slots[name]
	if slot := slices.Index(used, seq); slot >= 0 {
		used[slot] = 0
	}
	inUse := slices.ContainsFunc(used, func(seq uint64) bool { return seq != 0 })
	if !inUse && (!c.resumed || len(c.slots) > maxIdle) {
		delete(c.slots, name)
	}
}

// held returns the claims that hold their locks, by number, but for those that are being removed.
func (c *claims) held() map[uint64]claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[uint64]claim{}
	for seq, k := range c.known {
		if k.state == granted && k.leaving == 0 {
			all[seq] = *k
		}
	}
	return all
}

// untouched reports whether a resumed session was not asked about a claim since it was opened.
func (c *claims) untouched(seq uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.touched != nil && !c.touched[seq]
}

// resuming reports whether claims from before may be left to drop.
func (c *claims) resuming() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.touched != nil
}

// dropped notes that no claim from before is left.
func (c *claims) dropped() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touched = nil
}
