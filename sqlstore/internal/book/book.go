// SPDX-License-Identifier: Apache-2.0

package book

import (
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Session is what is known of one session. One that is not known has ended.
type Session struct {
	Epoch, Ends int64
	// Done is the incarnation in which it said that it has reclaimed everything.
	Done int64
}

// Push is a claim from the line that was granted: its process is to be told.
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

func (b *Book) alive(id string, epoch int64) bool {
	s, ok := b.Sessions[id]
	return ok && s.Epoch == epoch && s.Ends > b.Now
}

// holds says whether a grant of a session still counts: one from before a loss of
// memory does until its session has said that it has reclaimed all it had.
func (b *Book) holds(g *Claim) bool {
	return b.alive(g.Session, g.Epoch) && (g.Inc == b.Inc || b.Sessions[g.Session].Done != b.Inc)
}

// suspect says that a grant survived a loss of memory and was not confirmed yet.
func (b *Book) suspect(g *Claim) bool { return g.Session != "" && g.Inc != b.Inc }

// Settle drops what has run out of its time and grants to whoever fits then.
func (b *Book) Settle() {
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
	b.Line = slices.DeleteFunc(b.Line, func(c Claim) bool { return !b.alive(c.Session, c.Epoch) || c.Inc != b.Inc })
	b.Marks = slices.DeleteFunc(b.Marks, func(m Mark) bool { return !b.alive(m.Session, m.Epoch) })
	b.promote()
}

// kept makes a grant nobody's until then.
func kept(g Claim, until int64) Claim {
	g.Session, g.MinEnd, g.MaxEnd, g.Plain = "", 0, until, 0
	return g
}

func (b *Book) mark(c *Claim, kind string) {
	b.Marks = append(b.Marks, Mark{Session: c.Session, Seq: c.Seq, Epoch: c.Epoch, Kind: kind})
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

// promote grants from the front of the line for as long as the front fits. Whoever
// does not fit blocks those behind, so that neither an exclusive nor a heavy claim
// starves; only claims that re-enter a grant may pass, because waiting for oneself
// never ends.
func (b *Book) promote() {
	if b.Grace() > 0 {
		return
	}
	for len(b.Line) > 0 && fits(b.Grants, &b.Line[0], b.Limit) {
		c := b.Line[0]
		b.Line = slices.Clone(b.Line[1:])
		b.grant(c, true)
	}
	for _, c := range slices.Clone(b.Line) {
		if reenters(b.Grants, &c) {
			b.Line = slices.DeleteFunc(b.Line, func(o Claim) bool { return o.is(c.Session, c.Seq) })
			b.grant(c, true)
		}
	}
}

// fits says whether a claim can be granted beside grants.
func fits(grants []Claim, c *Claim, stored int64) bool {
	if !c.Shared {
		return len(grants) == 0 || reenters(grants, c)
	}
	if exclusive(grants) {
		return false
	}
	if c.Limit == 0 {
		return true
	}
	limit := c.Limit
	if stored > 0 {
		limit = stored
	}
	// A claim heavier than a limit that was lowered takes all of it: it would
	// otherwise stand in everybody's way for ever.
	used := min(c.weight(), limit)
	for _, g := range grants {
		used += min(g.weight(), limit)
	}
	return used <= limit
}

func exclusive(grants []Claim) bool {
	return slices.ContainsFunc(grants, func(g Claim) bool { return !g.Shared })
}

// reenters says whether an exclusive claim may join the grants there are.
func reenters(grants []Claim, c *Claim) bool {
	if c.Reentry == "" || c.Shared || !exclusive(grants) {
		return false
	}
	return !slices.ContainsFunc(grants, func(g Claim) bool { return g.Session == "" || g.Reentry != c.Reentry })
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

// lookStep spreads the looks of those in line: the further back, the later.
const lookStep = 250 * time.Millisecond

// outcome tells a claim where it stands.
func (b *Book) outcome(session string, seq uint64) driver.Outcome {
	if i := find(b.Grants, session, seq); i >= 0 {
		g := b.Grants[i]
		out := driver.Outcome{State: driver.Granted, Token: g.Token()}
		if g.MaxEnd != 0 {
			out.Remaining = micros(g.MaxEnd - b.Now)
		}
		return out
	}
	out := driver.Outcome{State: driver.Busy}
	if i := find(b.Line, session, seq); i >= 0 {
		out.State, out.Place = driver.Queued, i
	}
	for i, g := range b.Grants {
		if i < driver.MaxHoldersTold {
			out.Holders = append(out.Holders, b.holder(&g))
		}
	}
	if b.Grace() > 0 {
		out.Grace, out.LookAfter = true, micros(b.Grace())
		return out
	}
	out.LookAfter = b.soonestEnd() + time.Duration(min(out.Place, 8))*lookStep
	return out
}

// Waiting tells a claim that was just put into line where it stands, without a look at
// the other sessions in it. It is false if the claim is not behind a holder that lives:
// then there is something to decide.
func (b *Book) Waiting(session string, seq uint64) (driver.Outcome, bool) {
	ok := len(b.Grants) == 1 && b.holds(&b.Grants[0]) && find(b.Line, session, seq) >= 0
	return b.outcome(session, seq), ok
}
