// SPDX-License-Identifier: Apache-2.0

package book

import (
	"slices"

	"github.com/fencelock/fencelock/driver"
)

// Session is what is known of one session. One that is not known has ended.
type Session struct {
	Generation, Ends int64
	// Done is the incarnation in which it reported that it has reclaimed everything.
	Done int64
}

// Push is a queued claim that was granted: its process is to be notified.
type Push struct {
	Session string
	Seq     uint64
	Counter int64
}

// Book is one lock at one moment.
type Book struct {
	*Lock
	Now      int64
	Inc      int64 // the present incarnation
	GraceEnd int64
	Floor    int64 // no counter at or below it is given out
	Sessions map[string]Session
	Pushes   []Push
}

// Grace returns how long nothing new is granted, in microseconds.
func (b *Book) Grace() int64 { return max(0, b.GraceEnd-b.Now) }

// Ended returns the sessions whose time has come. They must be removed from the store
// before the lock is written: until then they could be kept alive, on a clock that
// was set back.
func (b *Book) Ended() (ids []string) {
	for _, id := range b.Lock.Sessions() {
		if s, ok := b.Sessions[id]; ok && s.Ends <= b.Now {
			ids = append(ids, id)
		}
	}
	return ids
}

func (b *Book) alive(id string, generation int64) bool {
	s, ok := b.Sessions[id]
	return ok && s.Generation == generation && s.Ends > b.Now
}

// holds reports whether a grant of a session still counts: one from before a data loss
// does until its session has reported that it has reclaimed all it had.
func (b *Book) holds(g *Claim) bool {
	return b.alive(g.Session, g.Generation) && (g.Inc == b.Inc || b.Sessions[g.Session].Done != b.Inc)
}

// suspect reports whether a grant survived a data loss and was not confirmed yet.
func (b *Book) suspect(g *Claim) bool { return g.Session != "" && g.Inc != b.Inc }

// Refresh drops what has ended and grants to the claims that fit then.
func (b *Book) Refresh() {
	b.correct()
	var grants []Claim
	for _, g := range b.Grants {
		owned := g.Session != ""
		switch {
		case owned && !b.holds(&g):
			if g.MinEnd > b.Now {
				grants = append(grants, kept(g, g.MinEnd))
			}
		case g.MaxEnd != 0 && g.MaxEnd <= b.Now:
			if owned {
				b.mark(&g, Spent)
			}
		default:
			grants = append(grants, g)
		}
	}
	b.Grants = grants
	b.Queue = slices.DeleteFunc(b.Queue, func(c Claim) bool { return !b.alive(c.Session, c.Generation) || c.Inc != b.Inc })
	b.Marks = slices.DeleteFunc(b.Marks, func(m Mark) bool { return !b.alive(m.Session, m.Generation) })
	b.promote()
}

// Leap is how far ahead of what it can be an end may be, in microseconds, before it is taken
// for one that was written by a clock which has been set back since.
const Leap = 60_000_000

// correct takes such ends of holds back. A hold is never set to less than all of its time
// from now. MinEnd needs no correction: when its holder is gone it becomes a MaxEnd.
func (b *Book) correct() {
	for i := range b.Grants {
		g := &b.Grants[i]
		longest := g.MaxHold
		if g.Session == "" {
			longest = max(g.MinHold, g.Keep)
		}
		if longest > 0 && g.MaxEnd > b.Now+longest+Leap {
			g.MaxEnd = b.Now + longest
		}
	}
}

// kept takes a grant from its session and keeps the lock taken until then.
func kept(g Claim, until int64) Claim {
	g.Session, g.MinEnd, g.MaxEnd, g.Plain = "", 0, until, 0
	return g
}

func (b *Book) mark(c *Claim, kind string) {
	b.Marks = append(b.Marks, Mark{Session: c.Session, Seq: c.Seq, Generation: c.Generation, Kind: kind})
}

func (b *Book) marked(session string, seq uint64, kinds ...string) bool {
	return slices.ContainsFunc(b.Marks, func(m Mark) bool {
		return m.Session == session && m.Seq == seq && slices.Contains(kinds, m.Kind)
	})
}

func (b *Book) unmark(session string, seq uint64, kinds ...string) {
	b.Marks = slices.DeleteFunc(b.Marks, func(m Mark) bool {
		return m.Session == session && m.Seq == seq && slices.Contains(kinds, m.Kind)
	})
}

// promote grants from the front of the queue for as long as the front fits. A claim
// that does not fit blocks those behind, so that neither an exclusive nor a heavy claim
// starves; only claims that re-enter a grant may pass, because waiting for oneself
// never ends.
func (b *Book) promote() {
	if b.Grace() > 0 {
		return
	}
	for len(b.Queue) > 0 && fits(b.Grants, &b.Queue[0], b.Limit) {
		c := b.Queue[0]
		b.Queue = slices.Clone(b.Queue[1:])
		b.grant(c, true)
	}
	for _, c := range slices.Clone(b.Queue) {
		if reenters(b.Grants, &c) {
			b.Queue = slices.DeleteFunc(b.Queue, func(o Claim) bool { return o.is(c.Session, c.Seq) })
			b.grant(c, true)
		}
	}
}

// fits reports whether a claim can be granted beside grants.
func fits(grants []Claim, c *Claim, stored int64) bool {
	return driver.Fits(granted(grants), c.terms(), stored)
}

// reenters reports whether an exclusive claim may join the grants there are.
func reenters(grants []Claim, c *Claim) bool { return driver.Joins(granted(grants), c.terms()) }

// granted returns grants as the admission rule takes them.
func granted(grants []Claim) []driver.Grant {
	list := make([]driver.Grant, len(grants))
	for i, g := range grants {
		list[i] = driver.Grant{Mode: g.mode(), Weight: g.weight(), Reentry: g.Reentry, Kept: g.Session == ""}
	}
	return list
}

// grant gives the lock to a claim that fits.
func (b *Book) grant(c Claim, push bool) {
	if reenters(b.Grants, &c) {
		c.Counter = b.Grants[0].Counter
	} else {
		c.Counter = b.next()
	}
	b.hold(&c)
	b.Grants = append(b.Grants, c)
	if push {
		b.Pushes = append(b.Pushes, Push{c.Session, c.Seq, c.Counter})
	}
}

func (b *Book) hold(c *Claim) {
	c.Since = b.Now
	if c.MinHold > 0 {
		c.MinEnd = b.Now + c.MinHold
	}
	if c.MaxHold > 0 {
		c.MaxEnd = b.Now + c.MaxHold
	}
}

// next counts up and returns the new counter.
func (b *Book) next() int64 {
	b.Counter = max(b.Counter, b.Floor) + 1
	return b.Counter
}

func find(list []Claim, session string, seq uint64) int {
	return slices.IndexFunc(list, func(c Claim) bool { return c.is(session, seq) })
}

// outcome returns where a claim stands.
func (b *Book) outcome(session string, seq uint64) driver.Outcome {
	if i := find(b.Grants, session, seq); i >= 0 {
		g := b.Grants[i]
		out := driver.Outcome{State: driver.Granted, Token: g.Token()}
		if g.MaxEnd != 0 {
			out.Remaining = micros(g.MaxEnd - b.Now)
		}
		return out
	}
	if i := find(b.Queue, session, seq); i >= 0 {
		return b.QueuedAt(i)
	}
	return b.behind(driver.Outcome{State: driver.Busy})
}

// QueuedAt returns where a claim stands that has so many before it in the queue. It reads
// nothing of the queue.
func (b *Book) QueuedAt(position int) driver.Outcome {
	return b.behind(driver.Outcome{State: driver.Queued, Position: position})
}

// behind adds the holders, and when to poll.
func (b *Book) behind(out driver.Outcome) driver.Outcome {
	for i, g := range b.Grants {
		if i < driver.MaxHoldersReported {
			out.Holders = append(out.Holders, b.holder(&g))
		}
	}
	if b.Grace() > 0 {
		out.Grace, out.PollAfter = true, micros(b.Grace())
		return out
	}
	out.PollAfter = driver.PollAfter(b.soonestEnd(), out.Position)
	return out
}

// Waiting returns where a claim that was just queued stands, without reading the other
// sessions in the queue. It is false if the claim is not behind a holder that lives:
// then there is something to decide.
func (b *Book) Waiting(session string, seq uint64) (driver.Outcome, bool) {
	ok := len(b.Grants) == 1 && b.holds(&b.Grants[0]) && find(b.Queue, session, seq) >= 0
	return b.outcome(session, seq), ok
}
