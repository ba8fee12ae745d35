// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"fmt"
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// lock is one name: who has it and who waits.
type lock struct {
	name   string
	grants []*entry
	line   []*entry
}

// entry is one claim in the store, granted or in line.
type entry struct {
	live    *liveness // nil: nobody's any more, only kept
	claim   driver.Claim
	granted bool
	token   driver.Token
	since   time.Time // of the grant, or of coming into line
	minEnd  time.Time // not free before, whatever happens
	maxEnd  time.Time // zero, or ended then, whatever happens
	suspect bool      // survived a loss of memory and was not reclaimed yet
	wake    chan struct{}
}

// settle drops what has run out of its time and grants to whoever fits then.
func (sh *shard) settle(name string, now time.Time) *lock {
	l := sh.lock(name)
	for _, e := range slices.Clone(l.grants) {
		if !e.maxEnd.IsZero() && !now.Before(e.maxEnd) {
			sh.expire(e, now)
		}
	}
	sh.promote(l, now)
	return l
}

// expire ends a grant that outlived its MaxHold, a kept one, or a broken one. Its
// claim is spent: attempted again it must not be granted a second time.
func (sh *shard) expire(e *entry, now time.Time) {
	if live := e.live; live != nil {
		if live.spent == nil {
			live.spent = map[uint64]struct{}{}
		}
		live.spent[e.claim.Seq] = struct{}{}
	}
	e.minEnd = time.Time{}
	sh.remove(e, now, 0)
}

func (l *liveness) bury(seq uint64) {
	if l.buried == nil {
		l.buried = map[uint64]struct{}{}
	}
	l.buried[seq] = struct{}{}
}

// remove takes an entry out of its session and its lock. A grant that must be
// kept longer stays in the lock as nobody's.
func (sh *shard) remove(e *entry, now time.Time, keep time.Duration) {
	if e.live != nil {
		delete(e.live.claims, e.claim.Seq)
		e.live = nil
	}
	e.awake()
	l := sh.lock(e.claim.Name)
	if !e.granted {
		l.line = without(l.line, e)
		return
	}
	until := e.minEnd
	if end := now.Add(keep); keep > 0 && end.After(until) {
		until = end
	}
	if until.After(now) {
		e.maxEnd = until
		return
	}
	l.grants = without(l.grants, e)
}

func without(list []*entry, e *entry) []*entry {
	if i := slices.Index(list, e); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// awake ends every Await of the entry. It is called with each change of it.
func (e *entry) awake() {
	if e.wake != nil {
		close(e.wake)
		e.wake = nil
	}
}

// promote grants from the front of the line for as long as the front fits.
// Whoever does not fit blocks those behind, so that neither an exclusive nor a
// heavy claim starves; only claims that re-enter a grant may pass, because
// waiting for oneself never ends.
func (sh *shard) promote(l *lock, now time.Time) {
	if sh.grace(now) > 0 {
		return
	}
	for len(l.line) > 0 && sh.fits(l, l.line[0].claim.Terms) {
		e := l.line[0]
		l.line = l.line[1:]
		sh.grant(l, e, now)
	}
	for _, e := range slices.Clone(l.line) {
		if l.reenters(e.claim.Terms) {
			l.line = without(l.line, e)
			sh.grant(l, e, now)
		}
	}
}

// fits says whether terms can be granted beside what is granted.
func (sh *shard) fits(l *lock, t *driver.Terms) bool {
	if len(l.grants) == 0 {
		return t.Mode == driver.Exclusive || sh.within(l, t)
	}
	if t.Mode == driver.Exclusive {
		return l.reenters(t)
	}
	return !l.exclusive() && sh.within(l, t)
}

func (sh *shard) within(l *lock, t *driver.Terms) bool {
	if t.Limit == 0 {
		return true
	}
	limit := t.Limit
	if stored, ok := sh.limits[l.name]; ok {
		limit = stored
	}
	// A claim heavier than a limit that was lowered takes all of it: it would
	// otherwise stand in everybody's way for ever.
	used := min(t.Weight, limit)
	for _, g := range l.grants {
		used += min(g.claim.Terms.Weight, limit)
	}
	return used <= limit
}

func (l *lock) exclusive() bool {
	return slices.ContainsFunc(l.grants, func(g *entry) bool { return g.claim.Terms.Mode == driver.Exclusive })
}

// reenters says whether an exclusive claim may join the grants there are.
func (l *lock) reenters(t *driver.Terms) bool {
	if t.Reentry == "" || t.Mode != driver.Exclusive || !l.exclusive() {
		return false
	}
	for _, g := range l.grants {
		if g.live == nil || g.claim.Terms.Reentry != t.Reentry {
			return false
		}
	}
	return true
}

// grant gives the lock to an entry that fits.
func (sh *shard) grant(l *lock, e *entry, now time.Time) {
	if l.reenters(e.claim.Terms) {
		e.token = l.grants[0].token
	} else {
		e.token = sh.nextToken()
	}
	e.hold(now)
	l.grants = append(l.grants, e)
	e.awake()
}

// lift gives a grant a new token, and with it those that share the old one.
func (sh *shard) lift(l *lock, e *entry) {
	old, token := e.token, sh.nextToken()
	for _, g := range l.grants {
		if g.token == old {
			g.token = token
		}
	}
}

func (e *entry) hold(now time.Time) {
	e.granted, e.since = true, now
	if t := e.claim.Terms; t.MinHold > 0 {
		e.minEnd = now.Add(t.MinHold)
	}
	if t := e.claim.Terms; t.MaxHold > 0 {
		e.maxEnd = now.Add(t.MaxHold)
	}
}

// breakGrant ends every grant with the token's base: one, or those that share
// it by re-entry.
func (sh *shard) breakGrant(l *lock, token driver.Token, now time.Time) (driver.Token, error) {
	found := false
	for _, e := range slices.Clone(l.grants) {
		if e.token.Base() != token.Base() {
			continue
		}
		found = true
		if e.live != nil {
			if e.live.broken == nil {
				e.live.broken = map[uint64]struct{}{}
			}
			e.live.broken[e.claim.Seq] = struct{}{}
		}
		sh.expire(e, now)
	}
	if !found {
		return 0, fmt.Errorf("memstore: %q with token %v: %w", l.name, token, driver.ErrNotHeld)
	}
	// The fence comes from the counter before the next grant does, so it lies
	// between the old holder's token and the next one's.
	fence := sh.nextToken()
	sh.promote(l, now)
	return fence, nil
}
