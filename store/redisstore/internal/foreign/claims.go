// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// claim is what a process knows about one of its claims.
type claim struct {
	key string
	// granted is set from the answer to an attempt until the claim is withdrawn.
	granted bool
	// round is the round of renewals before which the claim was granted, and seen the last one
	// that found it on the server.
	round, seen uint64
	// until is the earliest end of its MaxHold, zero if it has none.
	until time.Time
	// sent counts the attempts under way, and doubted is set if one may still arrive after its
	// call has ended.
	sent    int
	doubted bool
}

// claims are those of a session that may be on the server, as this process knows them. The
// server may lose some of its data and keep the session, so each round of renewals is compared
// with them:
//
//   - A claim that was granted before the round began and was not found is missing.
//   - A claim that was found and is not known is left over: its withdrawal was lost.
//
// A claim that is granted or withdrawn during the round is neither.
type claims struct {
	mu    sync.Mutex
	known map[uint64]*claim
	// first and last bound the claims that were attempted. Others are of a session that was
	// resumed, and are never left over.
	first, last uint64
	round       uint64
	running     int
	// gone are the claims that were withdrawn while a round is under way.
	gone map[uint64]struct{}
}

// send notes that an attempt is under way.
func (c *claims) send(seq uint64, key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known, c.first = map[uint64]*claim{}, seq
	}
	c.first, c.last = min(c.first, seq), max(c.last, seq)
	one := c.known[seq]
	if one == nil {
		one = &claim{key: key}
		c.known[seq] = one
	}
	one.sent++
}

// answered notes what an attempt that was sent at a time came to.
func (c *claims) answered(seq uint64, out driver.Outcome, err error, at time.Time, maxHold bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.known[seq]
	if one == nil { // withdrawn
		return
	}
	one.sent--
	one.doubted = one.doubted || errors.Is(err, driver.ErrUnknown)
	switch {
	case err != nil:
	case out.State == driver.Granted:
		if !one.granted {
			one.granted, one.round = true, c.round
		}
		if maxHold {
			one.until = at.Add(out.Remaining)
		}
		return
	default:
		one.granted = false
	}
	if !one.granted && !one.doubted && one.sent == 0 { // it is certainly not on the server
		delete(c.known, seq)
	}
}

// confirm notes that a claim of before the session was resumed holds its lock, at least until a time
// if it has a MaxHold.
func (c *claims) confirm(seq uint64, key string, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known, c.first = map[uint64]*claim{}, seq
	}
	one := c.known[seq]
	if one == nil {
		one = &claim{key: key}
		c.known[seq] = one
	}
	if !one.granted {
		one.granted, one.round, one.until = true, c.round, until
	}
}

// leave notes that a claim is being withdrawn. It reports whether the claim must hold its lock, and
// whether an attempt of it may still be under way.
func (c *claims) leave(seq uint64) (holds, doubted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.known[seq]
	if one == nil {
		return false, false
	}
	holds, one.granted = one.granted && !one.ended(), false
	return holds, one.doubted || one.sent > 0
}

// ended reports whether MaxHold may have ended the grant.
func (c *claim) ended() bool { return !c.until.IsZero() && !time.Now().Before(c.until) }

// drop notes that a claim was withdrawn. If the server has it in a later round, it is left over.
func (c *claims) drop(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, seq)
	if c.running > 0 {
		c.gone[seq] = struct{}{}
	}
}

// begin begins a round of renewals.
func (c *claims) begin() (round uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.round++
	if c.running++; c.running == 1 {
		c.gone = map[uint64]struct{}{}
	}
	return c.round
}

// end ends a round.
func (c *claims) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running--; c.running == 0 {
		c.gone = nil
	}
}

// lost returns claims for a session whose server has none: what it gets late of those that were attempted is left over.
func (c *claims) lost() *claims {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		return &claims{}
	}
	return &claims{known: map[uint64]*claim{}, first: c.first, last: c.last}
}

// pages returns the last claim of each page of n granted claims.
func (c *claims) pages(n int) (ends []uint64) {
	c.mu.Lock()
	seqs := make([]uint64, 0, len(c.known))
	for seq, one := range c.known {
		if one.granted {
			seqs = append(seqs, seq)
		}
	}
	c.mu.Unlock()
	if len(seqs) <= n {
		return nil
	}
	slices.Sort(seqs)
	for i := n; i < len(seqs); i += n {
		ends = append(ends, seqs[i-1])
	}
	return ends
}

// found notes the claims that a round has found, and returns those that are left over.
func (c *claims) found(round uint64, seqs []uint64) (left []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, seq := range seqs {
		if one := c.known[seq]; one != nil {
			one.seen = max(one.seen, round)
			continue
		}
		if _, now := c.gone[seq]; !now && c.first <= seq && seq <= c.last {
			left = append(left, seq)
		}
	}
	return left
}

// missing returns the claims that were granted before a round, and were neither found in it nor
// are broken, with their keys.
func (c *claims) missing(round uint64, broken []uint64) (seqs []uint64, keys []string) {
	reported := map[uint64]struct{}{}
	for _, seq := range broken {
		reported[seq] = struct{}{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for seq, one := range c.known {
		if _, is := reported[seq]; !is && one.granted && one.round < round && one.seen < round && !one.ended() {
			seqs, keys = append(seqs, seq), append(keys, one.key)
		}
	}
	return seqs, keys
}
