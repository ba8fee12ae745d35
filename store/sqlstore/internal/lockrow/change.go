// SPDX-License-Identifier: Apache-2.0

package lockrow

import (
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Attempt tries to be granted. c is as NewClaim made it, queue lets it wait.
func (st *State) Attempt(c Claim, queue bool) driver.Outcome {
	st.Refresh()
	if st.marked(c.Session, c.Seq, Tombstoned, Spent, Broken) {
		return driver.Outcome{State: driver.Absent}
	}
	c.Inc = st.Inc
	if i := find(st.Grants, c.Session, c.Seq); i >= 0 {
		st.Grants[i].Inc = st.Inc // its session knows of it
		st.Grants[i].watch(&c)
		st.downgrade(i, c)
	} else if find(st.Queue, c.Session, c.Seq) < 0 {
		st.admit(c, queue)
	}
	return st.outcome(c.Session, c.Seq)
}

// downgrade gives an exclusive grant the terms of the claim, if they are shared; its
// ends and its token stay.
func (st *State) downgrade(i int, c Claim) {
	g := st.Grants[i]
	if g.Shared || !c.Shared {
		return
	}
	c.Inc, c.Counter, c.Since, c.MinEnd, c.MaxEnd = g.Inc, g.Counter, g.Since, g.MinEnd, g.MaxEnd
	c.watch(&g)
	st.Grants[i] = c
	st.promote()
}

// admit lets a new claim in: granted if it fits and no claim waits, queued if it asks
// for that.
func (st *State) admit(c Claim, queue bool) {
	free := len(st.Queue) == 0 && fits(st.Grants, &c, st.Limit)
	switch {
	case st.Grace() == 0 && (free || reenters(st.Grants, &c)):
		st.grant(c, false)
	case queue:
		c.Since = st.Now
		st.Queue = append(st.Queue, c)
	}
}

// Withdraw removes one claim, and returns what it found.
func (st *State) Withdraw(session string, generation int64, w driver.Withdrawal) driver.Removed {
	st.Refresh()
	broken := st.marked(session, w.Seq, Broken, Withdrawn)
	if st.marked(session, w.Seq, Broken) {
		st.Marks = append(st.Marks, Mark{Session: session, Seq: w.Seq, Generation: generation, Kind: Withdrawn})
	}
	st.unmark(session, w.Seq, Broken, Spent)
	if w.Tombstone && !st.marked(session, w.Seq, Tombstoned) {
		st.Marks = append(st.Marks, Mark{Session: session, Seq: w.Seq, Generation: generation, Kind: Tombstoned})
	}
	if broken {
		return driver.WasBroken
	}
	found := driver.WasAbsent
	if i := find(st.Queue, session, w.Seq); i >= 0 {
		found = driver.WasQueued
		st.Queue = slices.Delete(st.Queue, i, i+1)
	} else if i := find(st.Grants, session, w.Seq); i >= 0 {
		found = driver.WasGranted
		st.remove(i, w.KeepFor)
	}
	st.promote()
	return found
}

// remove takes a grant away, or leaves it without a session while it must be kept.
func (st *State) remove(i int, keep time.Duration) {
	g := st.Grants[i]
	until := g.MinEnd
	if keep > 0 {
		until = max(until, st.Now+keep.Microseconds())
		g.Keep = keep.Microseconds()
	}
	if until > st.Now {
		st.Grants[i] = kept(g, until)
		return
	}
	st.Grants = slices.Delete(st.Grants, i, i+1)
}

// Reclaim answers whether a grant is held now. One that survived is; one that is
// missing can only be put back while nothing newer can have been granted and gone
// again. That is during grace, unless a process that knew of none began the incarnation: a counter above
// the floor was given out since. The floor rises when rows of free locks are removed, after a minute, so a lease with a longer TTL
// may come back after such a row is gone.
func (st *State) Reclaim(c Claim, token driver.Token) bool {
	st.Refresh()
	counter := int64(token.Base()) / driver.TokenStep
	if i := find(st.Grants, c.Session, c.Seq); i >= 0 {
		if st.Grants[i].Counter != counter {
			return false // another grant of the claim, which is not confirmed by this
		}
		st.Grants[i].Inc = st.Inc
		st.Grants[i].watch(&c)
		// The data may be older than a downgrade. Readers that were granted since
		// reclaim beside this one.
		st.downgrade(i, c)
		return true
	}
	if st.marked(c.Session, c.Seq, Tombstoned, Spent, Broken) || st.Grace() == 0 || st.Counter > st.Floor || counter < st.Reclaimed {
		return false
	}
	// A repeated attempt may have come first and be queued.
	st.Queue = slices.DeleteFunc(st.Queue, func(o Claim) bool { return o.is(c.Session, c.Seq) })
	if !st.makeRoom(&c, counter) {
		return false
	}
	c.Counter, c.Inc = counter, st.Inc
	st.hold(&c)
	st.Grants = append(st.Grants, c)
	if !c.Shared {
		st.Reclaimed = counter
	}
	st.Counter = max(st.Counter, counter)
	return true
}

// makeRoom reports whether a grant that is missing can be put back beside those that
// are there.
func (st *State) makeRoom(c *Claim, counter int64) bool {
	var grants, sure []Claim
	for _, g := range st.Grants {
		switch {
		case !st.suspect(&g):
			sure = append(sure, g)
		case g.Shared && c.Shared:
			// It may have been released after the data that is left, so its
			// weight does not count: nothing new is granted in the grace period, and its
			// session confirms it or drops it.
		case g.Counter < counter:
			continue // it was released before ours was granted
		default:
			sure = append(sure, g)
		}
		grants = append(grants, g)
	}
	st.Grants = grants
	if c.Shared {
		// Weights are not counted: it was granted, by a limit that may be
		// lost too, and nothing new is granted in the grace period.
		return fits(sure, &Claim{Shared: true}, 0)
	}
	return fits(sure, c, st.Limit) && (len(sure) == 0 || sure[0].Counter == counter)
}

// Break ends every grant with the token's base: one, or those that share it by
// re-entry. It returns the fence, or false if no grant has that token.
func (st *State) Break(token driver.Token) (fence driver.Token, found bool) {
	st.Refresh()
	var grants []Claim
	for _, g := range st.Grants {
		if g.Token() != token.Base() {
			grants = append(grants, g)
			continue
		}
		found = true
		if g.Session != "" {
			st.mark(&g, Broken)
		}
	}
	if !found {
		return 0, false
	}
	st.Grants = grants
	// The fence comes from the counter before the next grant does, so it lies
	// between the old holder's token and the next one's.
	fence = driver.Token(st.next() * driver.TokenStep)
	st.promote()
	return fence, true
}

// Holding returns the claims that a token stands for, without changing anything.
func (st *State) Holding(token driver.Token) (claims []Claim) {
	for _, g := range st.Grants {
		if g.Session != "" && g.Token() == token.Base() {
			claims = append(claims, g)
		}
	}
	return claims
}

// BrokenOf returns which claims of a session are broken.
func (st *State) BrokenOf(session string) (seqs []uint64) {
	for _, m := range st.Marks {
		if m.Session == session && m.Kind == Broken {
			seqs = append(seqs, m.Seq)
		}
	}
	return seqs
}
