// SPDX-License-Identifier: Apache-2.0

package book

import (
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Attempt tries to be granted. c is as NewClaim made it, queue lets it wait.
func (b *Book) Attempt(c Claim, queue bool) driver.Outcome {
	b.Refresh()
	if b.marked(c.Session, c.Seq, Tombstoned, Spent, Broken) {
		return driver.Outcome{State: driver.Absent}
	}
	c.Inc = b.Inc
	if i := find(b.Grants, c.Session, c.Seq); i >= 0 {
		b.Grants[i].Inc = b.Inc // its session knows of it
		b.Grants[i].watch(&c)
		b.downgrade(i, c)
	} else if find(b.Queue, c.Session, c.Seq) < 0 {
		b.admit(c, queue)
	}
	return b.outcome(c.Session, c.Seq)
}

// downgrade gives an exclusive grant the terms of the claim, if they are shared; its
// ends and its token stay.
func (b *Book) downgrade(i int, c Claim) {
	g := b.Grants[i]
	if g.Shared || !c.Shared {
		return
	}
	c.Inc, c.Counter, c.Since, c.MinEnd, c.MaxEnd = g.Inc, g.Counter, g.Since, g.MinEnd, g.MaxEnd
	c.watch(&g)
	b.Grants[i] = c
	b.promote()
}

// admit lets a new claim in: granted if it fits and no claim waits, queued if it asks
// for that.
func (b *Book) admit(c Claim, queue bool) {
	free := len(b.Queue) == 0 && fits(b.Grants, &c, b.Limit)
	switch {
	case b.Grace() == 0 && (free || reenters(b.Grants, &c)):
		b.grant(c, false)
	case queue:
		c.Since = b.Now
		b.Queue = append(b.Queue, c)
	}
}

// Withdraw removes one claim, and returns what it found.
func (b *Book) Withdraw(session string, generation int64, w driver.Withdrawal) driver.Removed {
	b.Refresh()
	broken := b.marked(session, w.Seq, Broken, Withdrawn)
	if b.marked(session, w.Seq, Broken) {
		b.Marks = append(b.Marks, Mark{Session: session, Seq: w.Seq, Generation: generation, Kind: Withdrawn})
	}
	b.unmark(session, w.Seq, Broken, Spent)
	if w.Tombstone && !b.marked(session, w.Seq, Tombstoned) {
		b.Marks = append(b.Marks, Mark{Session: session, Seq: w.Seq, Generation: generation, Kind: Tombstoned})
	}
	if broken {
		return driver.WasBroken
	}
	found := driver.WasAbsent
	if i := find(b.Queue, session, w.Seq); i >= 0 {
		found = driver.WasQueued
		b.Queue = slices.Delete(b.Queue, i, i+1)
	} else if i := find(b.Grants, session, w.Seq); i >= 0 {
		found = driver.WasGranted
		b.remove(i, w.KeepFor)
	}
	b.promote()
	return found
}

// remove takes a grant away, or leaves it without a session while it must be kept.
func (b *Book) remove(i int, keep time.Duration) {
	g := b.Grants[i]
	until := g.MinEnd
	if keep > 0 {
		until = max(until, b.Now+keep.Microseconds())
		g.Keep = keep.Microseconds()
	}
	if until > b.Now {
		b.Grants[i] = kept(g, until)
		return
	}
	b.Grants = slices.Delete(b.Grants, i, i+1)
}

// Reclaim answers whether a grant is held now. One that survived is; one that is
// missing can only be put back while nothing newer can have been granted and gone
// again, which is during grace.
func (b *Book) Reclaim(c Claim, token driver.Token) bool {
	b.Refresh()
	counter := int64(token.Base()) / driver.TokenStep
	if i := find(b.Grants, c.Session, c.Seq); i >= 0 {
		if b.Grants[i].Counter != counter {
			return false // another grant of the claim, which is not confirmed by this
		}
		b.Grants[i].Inc = b.Inc
		b.Grants[i].watch(&c)
		// The data may be older than a downgrade. Readers that were granted since
		// reclaim beside this one.
		b.downgrade(i, c)
		return true
	}
	if b.marked(c.Session, c.Seq, Tombstoned, Spent, Broken) || b.Grace() == 0 || counter < b.Reclaimed {
		return false
	}
	// A repeated attempt may have come first and be queued.
	b.Queue = slices.DeleteFunc(b.Queue, func(o Claim) bool { return o.is(c.Session, c.Seq) })
	if !b.makeRoom(&c, counter) {
		return false
	}
	c.Counter, c.Inc = counter, b.Inc
	b.hold(&c)
	b.Grants = append(b.Grants, c)
	if !c.Shared {
		b.Reclaimed = counter
	}
	b.Counter = max(b.Counter, counter)
	return true
}

// makeRoom reports whether a grant that is missing can be put back beside those that
// are there.
func (b *Book) makeRoom(c *Claim, counter int64) bool {
	var grants, sure []Claim
	for _, g := range b.Grants {
		switch {
		case !b.suspect(&g):
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
	b.Grants = grants
	if c.Shared {
		// Weights are not counted: it was granted, by a limit that may be
		// lost too, and nothing new is granted in the grace period.
		return fits(sure, &Claim{Shared: true}, 0)
	}
	return fits(sure, c, b.Limit) && (len(sure) == 0 || sure[0].Counter == counter)
}

// Break ends every grant with the token's base: one, or those that share it by
// re-entry. It returns the fence, or false if no grant has that token.
func (b *Book) Break(token driver.Token) (fence driver.Token, found bool) {
	b.Refresh()
	var grants []Claim
	for _, g := range b.Grants {
		if g.Token() != token.Base() {
			grants = append(grants, g)
			continue
		}
		found = true
		if g.Session != "" {
			b.mark(&g, Broken)
		}
	}
	if !found {
		return 0, false
	}
	b.Grants = grants
	// The fence comes from the counter before the next grant does, so it lies
	// between the old holder's token and the next one's.
	fence = driver.Token(b.next() * driver.TokenStep)
	b.promote()
	return fence, true
}

// Holding returns the claims that a token stands for, without changing anything.
func (b *Book) Holding(token driver.Token) (claims []Claim) {
	for _, g := range b.Grants {
		if g.Session != "" && g.Token() == token.Base() {
			claims = append(claims, g)
		}
	}
	return claims
}

// BrokenOf returns which claims of a session are broken.
func (b *Book) BrokenOf(session string) (seqs []uint64) {
	for _, m := range b.Marks {
		if m.Session == session && m.Kind == Broken {
			seqs = append(seqs, m.Seq)
		}
	}
	return seqs
}
