// SPDX-License-Identifier: Apache-2.0

package lockrow

import (
	"slices"
	"time"

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

// State is one lock at one moment, with what decides about it.
type State struct {
	*Lock
	Now      int64
	Inc      int64 // the present incarnation
	GraceEnd int64
	Floor    int64 // no counter at or below it is given out
	Sessions map[string]Session
	Pushes   []Push
}

// Grace returns how long nothing new is granted, in microseconds.
func (st *State) Grace() int64 { return max(0, st.GraceEnd-st.Now) }

// Ended returns the sessions whose time has come. They must be removed from the store
// before the lock is written: until then they could be kept alive, on a clock that
// was set back.
func (st *State) Ended() (ids []string) {
	for _, id := range st.Lock.Sessions() {
		if s, ok := st.Sessions[id]; ok && s.Ends <= st.Now {
			ids = append(ids, id)
		}
	}
	return ids
}

func (st *State) alive(id string, generation int64) bool {
	s, ok := st.Sessions[id]
	return ok && s.Generation == generation && s.Ends > st.Now
}

// holds reports whether a grant of a session still counts: one from before a data loss
// does until its session has reported that it has reclaimed all it had.
func (st *State) holds(g *Claim) bool {
	return st.alive(g.Session, g.Generation) && (g.Inc == st.Inc || st.Sessions[g.Session].Done != st.Inc)
}

// suspect reports whether a grant survived a data loss and was not confirmed yet.
func (st *State) suspect(g *Claim) bool { return g.Session != "" && g.Inc != st.Inc }

// Refresh drops what has ended and grants to the claims that fit then.
func (st *State) Refresh() {
	st.correct()
	var grants []Claim
	for _, g := range st.Grants {
		owned := g.Session != ""
		switch {
		case owned && !st.holds(&g):
			if g.MinEnd > st.Now {
				grants = append(grants, kept(g, g.MinEnd))
			}
		case g.MaxEnd != 0 && g.MaxEnd <= st.Now:
			if owned {
				st.mark(&g, Spent)
			}
		default:
			grants = append(grants, g)
		}
	}
	st.Grants = grants
	st.Queue = slices.DeleteFunc(st.Queue, func(c Claim) bool { return !st.alive(c.Session, c.Generation) || c.Inc != st.Inc })
	st.Marks = slices.DeleteFunc(st.Marks, func(m Mark) bool { return !st.alive(m.Session, m.Generation) })
	st.promote()
}

// Leap is how far ahead of what it can be an end may be, in microseconds, before it is taken
// for one that was written by a clock which has been set back since.
const Leap = 60_000_000

// correct takes such ends of holds back. A hold is never set to less than all of its time
// from now. MinEnd needs no correction: when its holder is gone it becomes a MaxEnd.
func (st *State) correct() {
	for i := range st.Grants {
		g := &st.Grants[i]
		longest := g.MaxHold
		if g.Session == "" {
			longest = max(g.MinHold, g.Keep)
		}
		if longest > 0 && g.MaxEnd > st.Now+longest+Leap {
			g.MaxEnd = st.Now + longest
		}
	}
}

// kept takes a grant from its session and keeps the lock taken until then.
func kept(g Claim, until int64) Claim {
	g.Session, g.MinEnd, g.MaxEnd, g.Plain = "", 0, until, 0
	return g
}

func (st *State) mark(c *Claim, kind string) {
	st.Marks = append(st.Marks, Mark{Session: c.Session, Seq: c.Seq, Generation: c.Generation, Kind: kind})
}

func (st *State) marked(session string, seq uint64, kinds ...string) bool {
	return slices.ContainsFunc(st.Marks, func(m Mark) bool {
		return m.Session == session && m.Seq == seq && slices.Contains(kinds, m.Kind)
	})
}

func (st *State) unmark(session string, seq uint64, kinds ...string) {
	st.Marks = slices.DeleteFunc(st.Marks, func(m Mark) bool {
		return m.Session == session && m.Seq == seq && slices.Contains(kinds, m.Kind)
	})
}

// promote grants from the front of the queue for as long as the front fits. A claim
// that does not fit blocks those behind, so that neither an exclusive nor a heavy claim
// starves; only claims that re-enter a grant may pass, because waiting for oneself
// never ends.
func (st *State) promote() {
	if st.Grace() > 0 {
		return
	}
	for len(st.Queue) > 0 && fits(st.Grants, &st.Queue[0], st.Limit) {
		c := st.Queue[0]
		st.Queue = slices.Clone(st.Queue[1:])
		st.grant(c, true)
	}
	for _, c := range slices.Clone(st.Queue) {
		if reenters(st.Grants, &c) {
			st.Queue = slices.DeleteFunc(st.Queue, func(o Claim) bool { return o.is(c.Session, c.Seq) })
			st.grant(c, true)
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
func (st *State) grant(c Claim, push bool) {
	if reenters(st.Grants, &c) {
		c.Counter = st.Grants[0].Counter
	} else {
		c.Counter = st.next()
	}
	st.hold(&c)
	st.Grants = append(st.Grants, c)
	if push {
		st.Pushes = append(st.Pushes, Push{c.Session, c.Seq, c.Counter})
	}
}

func (st *State) hold(c *Claim) {
	c.Since = st.Now
	if c.MinHold > 0 {
		c.MinEnd = st.Now + c.MinHold
	}
	if c.MaxHold > 0 {
		c.MaxEnd = st.Now + c.MaxHold
	}
}

// next counts up and returns the new counter.
func (st *State) next() int64 {
	st.Counter = max(st.Counter, st.Floor) + 1
	return st.Counter
}

func find(list []Claim, session string, seq uint64) int {
	return slices.IndexFunc(list, func(c Claim) bool { return c.is(session, seq) })
}

// outcome returns where a claim stands.
func (st *State) outcome(session string, seq uint64) driver.Outcome {
	if i := find(st.Grants, session, seq); i >= 0 {
		g := st.Grants[i]
		out := driver.Outcome{State: driver.Granted, Token: g.Token()}
		if g.MaxEnd != 0 {
			out.Remaining = micros(g.MaxEnd - st.Now)
		}
		return out
	}
	if i := find(st.Queue, session, seq); i >= 0 {
		return st.QueuedAt(i)
	}
	return st.withHolders(driver.Outcome{State: driver.Busy})
}

// QueuedAt returns where a claim stands that has so many before it in the queue. It reads
// nothing of the queue.
func (st *State) QueuedAt(position int) driver.Outcome {
	return st.withHolders(driver.Outcome{State: driver.Queued, Position: position})
}

// withHolders adds the holders, and when to poll.
func (st *State) withHolders(out driver.Outcome) driver.Outcome {
	for i, g := range st.Grants {
		if i < driver.MaxHoldersReported {
			out.Holders = append(out.Holders, st.holder(&g))
		}
	}
	if st.Grace() > 0 {
		out.Grace, out.PollAfter = true, micros(st.Grace())
		return out
	}
	out.PollAfter = driver.PollAfter(st.soonestEnd(), out.Position)
	return out
}

// Waiting returns where a claim that was just queued stands, without reading the other
// sessions in the queue. It is false if the claim is not behind a holder that lives:
// then there is something to decide.
func (st *State) Waiting(session string, seq uint64) (driver.Outcome, bool) {
	ok := len(st.Grants) == 1 && st.holds(&st.Grants[0]) && find(st.Queue, session, seq) >= 0
	return st.outcome(session, seq), ok
}

// Status shows the lock. Settle comes first.
func (st *State) Status(name string) driver.Status {
	status := driver.Status{Name: name, Waiting: len(st.Queue), Limit: st.Limit, Grace: micros(st.Grace())}
	for _, g := range st.Grants {
		status.Holders = append(status.Holders, st.holder(&g))
	}
	for _, c := range st.Queue[:min(len(st.Queue), driver.MaxWaitersReported)] {
		status.Waiters = append(status.Waiters, driver.Waiter{
			Claim: c.id(), Mode: c.mode(), Weight: c.weight(), Record: c.record(), Age: micros(max(0, st.Now-c.Since)),
		})
	}
	return status
}

func (st *State) holder(g *Claim) driver.Holder {
	return driver.Holder{
		Claim: g.id(), Token: g.Token(), Mode: g.mode(), Weight: g.weight(), Reentry: g.Reentry, Record: g.record(),
		Age: micros(max(0, st.Now-g.Since)), EndsIn: st.endsIn(g), Kept: g.Session == "", Linger: g.linger(),
	}
}

// endsIn is when a grant ends if its session is not kept alive again.
func (st *State) endsIn(g *Claim) time.Duration {
	end := max(st.Sessions[g.Session].Ends, g.MinEnd)
	if g.MaxEnd != 0 && (g.Session == "" || g.MaxEnd < end) {
		end = g.MaxEnd
	}
	return micros(max(0, end-st.Now))
}

// soonestEnd is when the first of those who have the lock must have ended.
func (st *State) soonestEnd() (soonest time.Duration) {
	for i := range st.Grants {
		if d := st.endsIn(&st.Grants[i]); i == 0 || d < soonest {
			soonest = d
		}
	}
	return soonest
}
