// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// lock is one name: who has it and who waits.
type lock struct {
	name   string
	grants []*entry
	queue  []*entry
}

// entry is one claim in the store, granted or queued.
type entry struct {
	live    *liveness // nil if the lock is only kept
	claim   driver.Claim
	granted bool
	token   driver.Token
	since   time.Time // of the grant, or of queueing
	minEnd  time.Time // not free before, whatever happens
	maxEnd  time.Time // zero, or ended then, whatever happens
	suspect bool      // survived a data loss and was not reclaimed yet
	// notified is set when the session was notified that a claim is queued behind it.
	notified bool
	wake     chan struct{}
}

// settle drops what has ended and grants to the claims that fit then.
func (sh *shard) refresh(name string, now time.Time) *lock {
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

func (l *liveness) tombstone(seq uint64) {
	if l.tombstoned == nil {
		l.tombstoned = map[uint64]struct{}{}
	}
	l.tombstoned[seq] = struct{}{}
}

// remove takes an entry out of its session and its lock. A grant that must be
// kept longer stays in the lock without a session.
func (sh *shard) remove(e *entry, now time.Time, keep time.Duration) {
	if e.live != nil {
		delete(e.live.claims, e.claim.Seq)
		e.live = nil
	}
	e.awake()
	l := sh.lock(e.claim.Name)
	if !e.granted {
		l.queue = without(l.queue, e)
		return
	}
	until := e.minEnd
	if end := now.Add(keep); keep > 0 && end.After(until) {
		until = end
	}
	if until.After(now) {
		e.maxEnd = until
		heap.Push(&sh.kept, keptLock{until, l.name})
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

// promote grants from the front of the queue for as long as the front fits.
// A claim that does not fit blocks those behind, so that neither an exclusive nor a
// heavy claim starves; only claims that re-enter a grant may pass, because
// waiting for oneself never ends.
func (sh *shard) promote(l *lock, now time.Time) {
	if sh.grace(now) > 0 {
		return
	}
	for len(l.queue) > 0 && sh.fits(l, l.queue[0].claim.Terms) {
		e := l.queue[0]
		l.queue = l.queue[1:]
		sh.grant(l, e, now)
	}
	for _, e := range slices.Clone(l.queue) {
		if l.reenters(e.claim.Terms) {
			l.queue = without(l.queue, e)
			sh.grant(l, e, now)
		}
	}
	sh.notifyHolders(l)
}

// fits reports whether terms can be granted beside what is granted.
func (sh *shard) fits(l *lock, t *driver.Terms) bool {
	var buf [4]driver.Grant
	return driver.Fits(l.granted(buf[:0]), t, sh.limits[l.name])
}

// reenters reports whether an exclusive claim may join the grants there are.
func (l *lock) reenters(t *driver.Terms) bool {
	var buf [4]driver.Grant
	return driver.Joins(l.granted(buf[:0]), t)
}

// granted appends the grants to list, as the admission rule takes them.
func (l *lock) granted(list []driver.Grant) []driver.Grant {
	for _, g := range l.grants {
		t := g.claim.Terms
		list = append(list, driver.Grant{Mode: t.Mode, Weight: t.Weight, Reentry: t.Reentry, Kept: g.live == nil})
	}
	return list
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

// keptLock is a lock that is kept taken until a moment although its claim is
// gone. No session ends it, and the name may never be asked for again: without a
// list by time the mark of every occurrence of a job would stay in memory.
type keptLock struct {
	until time.Time
	name  string
}

// free frees the locks that were kept until now, and drops what only a grace
// period needs. mu must be held.
func (sh *shard) free(now time.Time) {
	for len(sh.kept) > 0 && !now.Before(sh.kept[0].until) {
		name := heap.Pop(&sh.kept).(keptLock).name
		sh.refresh(name, now)
		sh.tidy(name)
	}
	if len(sh.reclaimed) > 0 && sh.grace(now) == 0 {
		clear(sh.reclaimed)
	}
}

// keptHeap is a heap of kept locks by their end.
type keptHeap []keptLock

func (h keptHeap) Len() int           { return len(h) }
func (h keptHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h keptHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *keptHeap) Push(x any) { *h = append(*h, x.(keptLock)) }

// Pop implements heap.Interface.
func (h *keptHeap) Pop() any {
	old := *h
	k := old[len(old)-1]
	*h = old[:len(old)-1]
	return k
}

// watch notes that the session of a claim wants notices about it.
func (e *entry) watch(c *driver.Claim) {
	if c.Watch {
		e.claim.Watch, e.live.watching = true, true
	}
}

// notifyHolders notifies the sessions of the watched grants of a lock that a claim is
// queued for it. A grant is notified once; the keep-alive repeats it.
func (sh *shard) notifyHolders(l *lock) {
	if len(l.queue) == 0 || sh.notice != driver.NoticeAtOnce {
		return
	}
	for _, g := range l.grants {
		if !g.notified {
			g.notify()
		}
	}
}

// renotify notifies a session of all its watched grants that claims are queued for.
func (sh *shard) renotify(l *liveness) {
	if !l.watching || sh.notice == driver.NoNotice {
		return
	}
	for _, e := range l.claims {
		if e.granted && len(sh.lock(e.claim.Name).queue) > 0 {
			e.notify()
		}
	}
}

// notify calls the holder's session, if that watches the grant.
func (e *entry) notify() {
	if e.live == nil || !e.claim.Watch || e.live.wanted == nil {
		return
	}
	e.notified = true
	e.live.wanted(e.claim.Seq)
}
