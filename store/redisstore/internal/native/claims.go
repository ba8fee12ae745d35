// SPDX-License-Identifier: Apache-2.0

package native

import (
	"maps"
	"slices"
	"sync"

	"github.com/fencelock/fencelock/driver"
)

// claim is what a process knows about one of its claims.
type claim struct {
	name   string
	record string // in JSON
	// ticket is the number of its grant, 0 if the process does not hold the lock.
	ticket int64
	// element is its element in the list of the lock, of a grant or in the queue, if the process
	// knows that.
	element string
	// voted is set if votes.lua may remove its grant.
	voted bool
	// lingers is set if its holder may keep the lock without using it.
	lingers bool
	// holds is set if its lock may be kept when it is withdrawn.
	holds bool
	// wanted is set if another claim was queued behind it.
	wanted bool
	// doubted is set if plain commands that push it may still be on their way.
	doubted bool
}

// claims are those of a session that may be in the store.
type claims struct {
	mu    sync.Mutex
	noted map[uint64]claim
	// tombstones are those of which a mark may be in the store, the oldest first.
	tombstones []tombstone
}

// copy returns the same claims.
func (c *claims) copy() *claims {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &claims{noted: maps.Clone(c.noted), tombstones: slices.Clone(c.tombstones)}
}

// begin notes that a claim may be in the store from now on, and returns what is known about it
// and whether it was noted before.
func (c *claims) begin(seq uint64, first claim) (claim, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, was := c.noted[seq]; was {
		return known, true
	}
	if c.noted == nil {
		c.noted = map[uint64]claim{}
	}
	c.noted[seq] = first
	return first, false
}

// stands notes the number of a claim, 0 if it is queued, and its element, if it is still noted.
func (c *claims) stands(seq uint64, ticket int64, element string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.noted[seq]; ok {
		known.ticket, known.element = ticket, element
		c.noted[seq] = known
	}
}

// voted notes the number of a claim that votes.lua has granted.
func (c *claims) voted(seq uint64, number int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.noted[seq]; ok {
		known.ticket, known.element, known.voted = number, "", true
		c.noted[seq] = known
	}
}

// doubt notes that plain commands that push a claim may still be on their way.
func (c *claims) doubt(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.noted[seq]; ok {
		known.doubted = true
		c.noted[seq] = known
	}
}

// want notes that another claim was queued behind a claim.
func (c *claims) want(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.noted[seq]; ok {
		known.wanted = true
		c.noted[seq] = known
	}
}

// pushed notes what a push said.
func (c *claims) pushed(s *session, seq uint64, p pushed) {
	element := ""
	if p.since != "" {
		element = s.element("G"+p.since, seq, c.get(seq).record)
	}
	c.stands(seq, int64(p.token)/driver.TokenStep, element)
}

func (c *claims) get(seq uint64) claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.noted[seq]
}

// has reports whether a claim is noted.
func (c *claims) has(seq uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.noted[seq]
	return ok
}

func (c *claims) drop(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.noted, seq)
}

func (c *claims) all() map[uint64]claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.noted)
}
