// SPDX-License-Identifier: Apache-2.0

package core

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Queues counts the names that the client keeps something for.
func (c *Client) Queues() int {
	n := 0
	c.mu.Lock()
	shards := slices.Collect(maps.Values(c.shards))
	c.mu.Unlock() // before a shard's mutex: the client takes them the other way round
	for _, sh := range shards {
		sh.mu.Lock()
		n += len(sh.queues)
		sh.mu.Unlock()
	}
	return n
}

// FindBroken returns how long a session takes to find n broken grants of n.
func FindBroken(n int) time.Duration {
	var s session
	var seqs []uint64
	for seq := range uint64(n) {
		s.grants = &grant{claim: driver.Claim{Seq: seq}, next: s.grants}
		seqs = append(seqs, seq)
	}
	began := time.Now()
	s.brokenGrantsLocked(seqs)
	return time.Since(began)
}

// BeforeHoldersAreNotified calls f when the lease's session has ended and no holder
// has been notified yet. Others that end the session during f do not wait for it.
func (l *Lease) BeforeHoldersAreNotified(f func()) {
	s := l.g.s
	s.sh.mu.Lock()
	defer s.sh.mu.Unlock()
	cancel := s.cancel
	var called atomic.Bool
	s.cancel = func(cause error) {
		if called.CompareAndSwap(false, true) {
			f()
		}
		cancel(cause)
	}
}

// PlannedEnds counts the leases whose fixed end the client waits for.
func (c *Client) PlannedEnds() int {
	n := 0
	c.mu.Lock()
	shards := maps.Clone(c.shards)
	c.mu.Unlock()
	for _, sh := range shards {
		sh.mu.Lock()
		if sh.session != nil {
			n += len(sh.session.deadlines)
		}
		sh.mu.Unlock()
	}
	return n
}

// Watches counts the claims whose holders wait for notices.
func (c *Client) Watches() int {
	n := 0
	c.mu.Lock()
	shards := maps.Clone(c.shards)
	c.mu.Unlock()
	for _, sh := range shards {
		sh.mu.Lock()
		if sh.session != nil {
			n += max(len(sh.session.watches), len(sh.session.watched))
		}
		sh.mu.Unlock()
	}
	return n
}

// Doubt lets a renewal of the lease's session fail, and returns how long that takes.
func (l *Lease) Doubt() time.Duration {
	began := time.Now()
	l.g.s.doubt()
	return time.Since(began)
}

// Renewed lets a renewal of the lease's session succeed after one that failed.
func (l *Lease) Renewed() {
	l.g.s.sh.mu.Lock()
	defer l.g.s.sh.mu.Unlock()
	l.g.s.doubtful = false
}
