// SPDX-License-Identifier: Apache-2.0

package book

import (
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Attempt tries to be granted. c is as NewClaim made it, queue lets it into line.
func (b *Book) Attempt(c Claim, queue bool) driver.Outcome {
	b.Settle()
	if b.marked(c.Session, c.Seq, Buried, Spent, Broken) {
		return driver.Outcome{State: driver.Absent}
	}
	c.Inc = b.Inc
	if i := find(b.Grants, c.Session, c.Seq); i >= 0 {
		g := &b.Grants[i]
		g.Inc = b.Inc // its session knows of it
		if !g.Shared && c.Shared {
			b.Grants[i] = downgraded(*g, c)
			b.promote()
		}
	} else if find(b.Line, c.Session, c.Seq) < 0 {
		b.admit(c, queue)
	}
	return b.outcome(c.Session, c.Seq)
}

// downgraded is a grant with other terms; its ends and its token stay.
func downgraded(g, c Claim) Claim {
	c.Counter, c.Since, c.MinEnd, c.MaxEnd = g.Counter, g.Since, g.MinEnd, g.MaxEnd
	return c
}

// admit lets a new claim in: granted if it fits and nobody waits, in line if it asks
// for that.
func (b *Book) admit(c Claim, queue bool) {
	free := len(b.Line) == 0 && fits(b.Grants, &c, b.Limit)
	switch {
	case b.Grace() == 0 && (free || reenters(b.Grants, &c)):
		b.grant(c, false)
	case queue:
		c.Since = b.Now
		b.Line = append(b.Line, c)
	}
}

// Withdraw removes one claim, and says what it found.
func (b *Book) Withdraw(session string, epoch int64, w driver.Withdrawal) driver.Removed {
	b.Settle()
	broken := b.marked(session, w.Seq, Broken)
	b.unmark(session, w.Seq, Broken, Spent)
	if w.Bury && !b.marked(session, w.Seq, Buried) {
		b.Marks = append(b.Marks, Mark{Session: session, Seq: w.Seq, Epoch: epoch, Kind: Buried})
	}
	if broken {
		return driver.WasBroken
	}
	found := driver.WasAbsent
	if i := find(b.Line, session, w.Seq); i >= 0 {
		found = driver.WasQueued
		b.Line = slices.Delete(b.Line, i, i+1)
	} else if i := find(b.Grants, session, w.Seq); i >= 0 {
		found = driver.WasGranted
		b.remove(i, w.KeepFor)
	}
	b.promote()
	return found
}

// remove takes a grant away, or leaves it as nobody's while it must be kept.
func (b *Book) remove(i int, keep time.Duration) {
	g := b.Grants[i]
	until := g.MinEnd
	if keep > 0 {
		until = max(until, b.Now+keep.Microseconds())
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
	b.Settle()
	counter := int64(token.Base()) / driver.TokenStep
	if i := find(b.Grants, c.Session, c.Seq); i >= 0 {
		b.Grants[i].Inc = b.Inc
		return b.Grants[i].Counter == counter
	}
	if b.marked(c.Session, c.Seq, Buried, Spent, Broken) || b.Grace() == 0 || counter < b.Reclaimed {
		return false
	}
	// A repeated attempt may have come first and be in line.
	b.Line = slices.DeleteFunc(b.Line, func(o Claim) bool { return o.is(c.Session, c.Seq) })
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

// makeRoom says whether a grant that is missing can be put back beside those that
// are there.
func (b *Book) makeRoom(c *Claim, counter int64) bool {
	var grants, sure []Claim
	for _, g := range b.Grants {
		switch {
		case !b.suspect(&g):
			sure = append(sure, g)
		case g.Shared && c.Shared:
			// It may have been released after the memory we woke up with, so its
			// weight does not count: nothing new is granted meanwhile, and its
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
		// forgotten too, and nothing new is granted meanwhile.
		return !exclusive(sure)
	}
	return fits(sure, c, b.Limit) && (len(sure) == 0 || sure[0].Counter == counter)
}

// Break ends every grant with the token's base: one, or those that share it by
// re-entry. It returns the fence and the claims that were broken, or false if there
// are none.
func (b *Book) Break(token driver.Token) (fence driver.Token, found bool) {
	b.Settle()
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
