// SPDX-License-Identifier: Apache-2.0

package core

import "github.com/fencelock/fencelock/driver"

// A name does not linger for coolFew acquisitions after another process waited for it, and
// for twice as many, up to coolMany, each time that the lingering did not pay: a recall costs
// as much as a few locks. So a name that processes take in turn is seldom recalled, and a
// name that sticks to its process pays few round trips for a visitor.
const (
	coolFew  = 8
	coolMany = 1024
)

// cooling is what is known of names for which other processes waited. Guarded by the shard's
// mutex.
type cooling map[string]cooled

type cooled struct {
	left  uint16 // acquisitions that shall not linger
	turns uint16 // how many there were after the last recall
}

// begin notes that another process waits for a name. paid reports whether it was locked often
// without a round trip before. What is noted is a matter of cost, so all of it may be dropped
// to bound its size.
func (c *cooling) begin(name string, paid bool) {
	if *c == nil || len(*c) >= maxLingering {
		*c = cooling{}
	}
	n := max(coolFew, min(2*(*c)[name].turns, coolMany))
	if paid {
		n = coolFew
	}
	(*c)[name] = cooled{left: n, turns: n}
}

// terms returns the terms to claim a name with: without Linger while the name cools down. A
// try of another process must not wait for such a claim.
func (c cooling) terms(name string, t *driver.Terms) *driver.Terms {
	known := c[name]
	if known.left == 0 || t.Linger == 0 {
		return t
	}
	known.left--
	c[name] = known
	cool := *t
	cool.Linger = 0
	return &cool
}

// paidLocked reports whether the grant has saved more round trips than a recall costs. sh.mu must be
// held.
func (g *grant) paidLocked() bool { return g.index > coolFew || !g.tokenLeft() }
