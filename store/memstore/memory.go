// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Snapshot is a copy of a store's data, as a replica or a disk has it.
type Snapshot struct{ shards []*shard }

// Snapshot copies the data as it is now.
func (s *Store) Snapshot() *Snapshot {
	var snap Snapshot
	for _, sh := range s.shards {
		sh.mu.Lock()
		snap.shards = append(snap.shards, sh.copy())
		sh.mu.Unlock()
	}
	return &snap
}

// Restart begins a new incarnation that still has all its data: a planned failover, or a
// restart after a clean shutdown.
func (s *Store) Restart() { s.Restore(s.Snapshot()) }

// Reset begins a new incarnation without any data: a restart without
// persistence, or FLUSHALL.
func (s *Store) Reset() { s.Restore(nil) }

// Restore begins a new incarnation with older data: a replica that lagged, or a disk
// without the last second. A nil snapshot is an empty one.
func (s *Store) Restore(snap *Snapshot) {
	for i, sh := range s.shards {
		sh.mu.Lock()
		old := newShard(s.now, s.notice())
		if snap != nil {
			old = snap.shards[i].copy()
		}
		sh.become(old, s.opts)
		sh.mu.Unlock()
	}
}

// become replaces the data and begins a new incarnation.
func (sh *shard) become(old *shard, opts Options) {
	for _, l := range sh.sessions {
		for _, e := range l.claims {
			e.awake() // waiters must learn of it
		}
	}
	now := sh.clock()
	sh.incarnation++
	sh.sessions, sh.locks, sh.limits, sh.soonest, sh.kept = old.sessions, old.locks, old.limits, old.soonest, old.kept
	// The clock in µs is above every counter that grew by less than one each
	// µs, so the tokens of what was lost stay below. With grace nothing is
	// granted before its end, so the clock of then will do: tokens that came from
	// another node's clock (package quorum) stay below too, as long as the two
	// differ by less than the grace.
	start := now
	sh.reclaimed = map[string]driver.Token{}
	if opts.Grace {
		sh.graceEnd = now.Add(opts.MaxTTL)
		start = sh.graceEnd
	}
	sh.counter = max(old.counter+1, sh.seed(start.UnixMicro()))
	for _, l := range sh.sessions {
		for _, e := range l.claims {
			e.suspect, e.notified = true, false
		}
	}
}

// seed returns what an incarnation counts from: the clock in µs. In fake time, and in memory,
// grants may take less than a µs each: those since the last seed count as time that has
// passed. Floors and a clock that was set back do not: a server would not know of them.
func (sh *shard) seed(micros int64) int64 {
	begin := micros
	if micros >= sh.began {
		begin = max(micros, sh.reached+1)
	}
	sh.began, sh.reached = micros, begin
	return begin
}

func (sh *shard) copy() *shard {
	c := newShard(sh.clock, sh.notice)
	c.counter, c.soonest, c.limits, c.kept = sh.counter, sh.soonest, maps.Clone(sh.limits), slices.Clone(sh.kept)
	copies := map[*entry]*entry{}
	for id, l := range sh.sessions {
		n := &liveness{id: l.id, ttl: l.ttl, end: l.end, incarnation: l.incarnation, watching: l.watching, claims: map[uint64]*entry{},
			tombstoned: maps.Clone(l.tombstoned), spent: maps.Clone(l.spent), broken: maps.Clone(l.broken), withdrawn: maps.Clone(l.withdrawn)}
		for seq, e := range l.claims {
			ne := *e
			ne.live, ne.wake = n, nil
			n.claims[seq], copies[e] = &ne, &ne
		}
		c.sessions[id] = n
	}
	clone := func(list []*entry) (out []*entry) {
		for _, e := range list {
			if copies[e] == nil { // kept: of no session
				ne := *e
				copies[e] = &ne
			}
			out = append(out, copies[e])
		}
		return out
	}
	for name, l := range sh.locks {
		c.locks[name] = &lock{name: name, grants: clone(l.grants), queue: clone(l.queue)}
	}
	return c
}

// Reclaim implements driver.Session.
func (s *session) Reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	l, now, err := s.enter(ctx, "reclaim")
	if err != nil {
		return nil, err
	}
	defer s.sh.mu.Unlock()
	kept := make([]bool, len(held))
	for i, h := range held {
		s.sh.refresh(h.Claim.Name, now)
		kept[i] = s.sh.reclaim(l, h, now)
		s.sh.tidy(h.Claim.Name)
	}
	if last {
		for _, e := range l.claims {
			if e.suspect {
				s.sh.remove(e, now, 0)
				s.sh.refresh(e.claim.Name, now)
				s.sh.tidy(e.claim.Name)
			}
		}
	}
	return kept, nil
}

// reclaim answers whether the grant is held now. One that survived is; one
// that is missing can only be put back while nothing newer can have been
// granted and gone again, which is during grace.
func (sh *shard) reclaim(l *liveness, h driver.Held, now time.Time) bool {
	base, name := h.Token.Base(), h.Claim.Name
	e := l.claims[h.Claim.Seq]
	if e != nil && e.granted {
		if e.token != base {
			return false // lifted since, or granted before: the last Reclaim drops it
		}
		e.suspect = false
		e.watch(&h.Claim)
		// The memory may be older than a downgrade. Readers that were granted since
		// reclaim beside this one.
		sh.downgrade(sh.lock(name), e, h.Claim.Terms, now)
		sh.notifyHolders(sh.lock(name))
		return true
	}
	if l.refuses(h.Claim.Seq) || sh.grace(now) == 0 || base < sh.reclaimed[name] {
		return false
	}
	if e != nil { // a repeated attempt came first and is queued
		sh.remove(e, now, 0)
	}
	lk := sh.lock(name)
	if !sh.makeRoom(lk, h, now) {
		return false
	}
	e = &entry{live: l, claim: h.Claim, token: base}
	e.hold(now)
	e.watch(&h.Claim)
	l.claims[h.Claim.Seq] = e
	lk.grants = append(lk.grants, e)
	if h.Claim.Terms.Mode == driver.Exclusive {
		sh.reclaimed[name] = base
	}
	sh.counter = max(sh.counter, int64(base)/driver.TokenStep)
	sh.notifyHolders(lk)
	return true
}

// makeRoom reports whether a grant that is missing can be put back beside those
// that are there.
func (sh *shard) makeRoom(lk *lock, h driver.Held, now time.Time) bool {
	sure := &lock{name: lk.name}
	for _, g := range slices.Clone(lk.grants) {
		switch {
		case !g.suspect:
			sure.grants = append(sure.grants, g)
		case together(g.claim.Terms, h.Claim.Terms):
			// The restored data may be older than its release, so its weight
			// does not count: nothing new is granted during the grace period,
			// in which its session confirms it or drops it.
		case g.token < h.Token.Base():
			// It was released before ours was granted.
			g.minEnd = time.Time{}
			sh.remove(g, now, 0)
		default:
			sure.grants = append(sure.grants, g)
		}
	}
	if h.Claim.Terms.Mode == driver.Shared {
		// Weights are not counted: it was granted, by a limit that may be
		// lost too, and nothing new is granted in the grace period.
		return sh.fits(sure, &driver.Terms{Mode: driver.Shared})
	}
	return sh.fits(sure, h.Claim.Terms) && (len(sure.grants) == 0 || sure.grants[0].token == h.Token.Base())
}

func together(a, b *driver.Terms) bool { return a.Mode == driver.Shared && b.Mode == driver.Shared }
