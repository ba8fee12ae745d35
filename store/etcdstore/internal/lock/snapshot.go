// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"slices"

	"github.com/fencelock/fencelock/driver"
)

// Grant is what the keys of one granted claim add up to.
type Grant struct {
	ID   driver.ClaimID
	Slot int
	// Main is the grant itself; nil if only what it leaves behind is there.
	Main *Entry
	// Max is there while a MaxHold is not over.
	Max *Entry
	// Keeps keep the lock taken for a while (MinHold, KeepFor).
	Keeps []*Entry
}

// Over reports whether the grant has outlived its MaxHold and was not removed yet.
func (g *Grant) Over() bool { return g.Main != nil && g.Main.Value.MaxHold > 0 && g.Max == nil }

// Kept reports whether no claim holds the lock by it and it is only kept taken.
func (g *Grant) Kept() bool { return g.Main == nil && len(g.Keeps) > 0 }

// Valid reports whether it takes the lock, held or kept.
func (g *Grant) Valid() bool { return g.Main != nil && !g.Over() || g.Kept() }

// Entry returns the key that describes it.
func (g *Grant) Entry() *Entry {
	if g.Main != nil {
		return g.Main
	}
	if len(g.Keeps) > 0 {
		return g.Keeps[0]
	}
	return g.Max
}

// Keys returns all its keys.
func (g *Grant) Keys() []string {
	var keys []string
	if g.Main != nil {
		keys = append(keys, g.Main.Key)
	}
	if g.Max != nil {
		keys = append(keys, g.Max.Key)
	}
	for _, k := range g.Keeps {
		keys = append(keys, k.Key)
	}
	return keys
}

// Snapshot is a lock as it was at one revision, or as a caller guesses it is: a
// transaction compares what a decision rests on, so a wrong guess costs a round
// trip and nothing else.
type Snapshot struct {
	// Rev is the revision; nothing came after it.
	Rev  int64
	Held []*Grant
	// Queue is the front of the queue in order. Count is how many there are.
	Queue []*Entry
	Count int
	// Limit is the stored limit, 0 if no limit is stored; LimitMod is its revision.
	Limit    int64
	LimitMod int64
}

// Find returns the grant of a claim, nil if the claim has no grant.
func (s *Snapshot) Find(id driver.ClaimID) *Grant {
	for _, g := range s.Held {
		if g.ID == id {
			return g
		}
	}
	return nil
}

// FreeSlot returns the lowest slot of a session that neither the grants that are
// seen nor those in taken use. One that is given up in the same transaction counts
// as used: a transaction cannot delete and write one key.
func (s *Snapshot) FreeSlot(id driver.SessionID, taken []int) int {
	for slot := 0; ; slot++ {
		used := slices.Contains(taken, slot) || slices.ContainsFunc(s.Held, func(g *Grant) bool {
			return g.ID.Session == id && g.Slot == slot
		})
		if !used {
			return slot
		}
	}
}

// Position returns the position of a claim among those of the queue that are seen, -1
// if it is not among them.
func (s *Snapshot) Position(id driver.ClaimID) int {
	for i, e := range s.Queue {
		if e.ID == id {
			return i
		}
	}
	return -1
}

// AddHeld adds one key of the held range.
func (s *Snapshot) AddHeld(e *Entry, end string) {
	i := slices.IndexFunc(s.Held, func(g *Grant) bool { return g.ID.Session == e.ID.Session && g.Slot == e.Slot })
	if i < 0 {
		i = len(s.Held)
		s.Held = append(s.Held, &Grant{ID: e.ID, Slot: e.Slot})
	}
	g := s.Held[i]
	switch end {
	case "":
		g.Main = e
	case EndMax:
		g.Max = e
	default:
		g.Keeps = append(g.Keeps, e)
	}
}

// Valid returns the grants that take the lock.
func (s *Snapshot) Valid() []*Grant {
	var valid []*Grant
	for _, g := range s.Held {
		if g.Valid() {
			valid = append(valid, g)
		}
	}
	return valid
}

// Without returns the snapshot without a grant and all its keys.
func (s *Snapshot) Without(g *Grant) *Snapshot {
	c := *s
	c.Held = nil
	for _, o := range s.Held {
		if o != g {
			c.Held = append(c.Held, o)
		}
	}
	return &c
}

// WithoutHeld returns the snapshot without a grant. What keeps the lock taken
// stays, and may be more than before.
func (s *Snapshot) WithoutHeld(g *Grant, keeps ...*Entry) *Snapshot {
	c := s.Without(g)
	if left := append(append([]*Entry(nil), g.Keeps...), keeps...); len(left) > 0 {
		c.Held = append(c.Held, &Grant{ID: g.ID, Slot: g.Slot, Keeps: left})
	}
	return c
}

// WithoutQueued returns the snapshot without one queued claim.
func (s *Snapshot) WithoutQueued(id driver.ClaimID) *Snapshot {
	c := *s
	c.Queue = nil
	c.Count--
	for _, e := range s.Queue {
		if e.ID != id {
			c.Queue = append(c.Queue, e)
		}
	}
	return &c
}

// WithLast returns the snapshot with one more claim at the end of the queue. It
// must be seen to its end.
func (s *Snapshot) WithLast(e *Entry) *Snapshot {
	c := *s
	c.Queue = append(append([]*Entry(nil), s.Queue...), e)
	c.Count++
	return &c
}

// Whole reports whether the queue is seen to its end.
func (s *Snapshot) Whole() bool { return len(s.Queue) >= s.Count }
