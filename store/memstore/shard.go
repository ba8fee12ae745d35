// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// shard keeps sessions and locks. All methods want mu held.
type shard struct {
	mu          sync.Mutex
	clock       func() time.Time
	notice      driver.Notice // how soon holders are notified of waiters
	incarnation uint64
	graceEnd    time.Time // nothing new is granted before
	counter     int64     // tokens are counter × TokenStep
	began       int64     // the clock in µs when the incarnation began
	reached     int64     // what counter would be without floors
	sessions    map[driver.SessionID]*liveness
	soonest     time.Time // no session ends before: saves a scan per call
	locks       map[string]*lock
	kept        keptHeap // locks that are only kept taken, by their end
	limits      map[string]int64
	// reclaimed has the exclusive token reclaimed last for a name in this
	// grace: an older one must not come back after it.
	reclaimed map[string]driver.Token
}

// liveness is what the shard knows of one session.
type liveness struct {
	id          driver.SessionID
	ttl         time.Duration
	end         time.Time
	incarnation uint64 // of the last Open
	claims      map[uint64]*entry
	tombstoned  map[uint64]struct{} // claims that must never be granted again
	spent       map[uint64]struct{} // claims whose grant ended, until withdrawn
	broken      map[uint64]struct{} // claims an operator broke, until withdrawn
	withdrawn   map[uint64]struct{} // broken ones, for a withdrawal that is sent twice
	wanted      func(seq uint64)    // of the last Open
	watching    bool                // a claim of it has Watch
}

func newShard(clock func() time.Time, notice driver.Notice) *shard {
	return &shard{
		clock:    clock,
		notice:   notice,
		sessions: map[driver.SessionID]*liveness{},
		locks:    map[string]*lock{},
		limits:   map[string]int64{},
	}
}

func (sh *shard) open(req driver.OpenRequest) *liveness {
	now := sh.sweep()
	l := sh.sessions[req.ID]
	if l == nil {
		l = &liveness{id: req.ID, claims: map[uint64]*entry{}}
		sh.sessions[req.ID] = l
	} else if l.incarnation != sh.incarnation {
		// The queue is rebuilt by the clients that still wait. The last Reclaim would
		// remove the rest, too; redisstore does it here, and memstore is the model
		// that its scripts are compared with.
		sh.dropQueued(l, now)
	}
	l.incarnation = sh.incarnation
	l.ttl, l.wanted = req.TTL, req.Contended
	sh.extend(l, now)
	return l
}

func (sh *shard) extend(l *liveness, now time.Time) {
	l.end = now.Add(l.ttl)
	if sh.soonest.IsZero() || l.end.Before(sh.soonest) {
		sh.soonest = l.end
	}
}

// refuses reports whether a claim must not be granted.
func (l *liveness) refuses(seq uint64) bool {
	_, tombstoned := l.tombstoned[seq]
	_, spent := l.spent[seq]
	return tombstoned || spent
}

// foundBroken reports whether an operator broke the claim that is withdrawn.
func (l *liveness) foundBroken(seq uint64) bool {
	if _, broken := l.broken[seq]; broken {
		delete(l.broken, seq)
		if l.withdrawn == nil {
			l.withdrawn = map[uint64]struct{}{}
		}
		l.withdrawn[seq] = struct{}{}
	}
	_, broken := l.withdrawn[seq]
	return broken
}

func (l *liveness) renewal(now time.Time) driver.Renewal {
	renewal := driver.Renewal{TTL: l.ttl, Clock: now}
	for seq := range l.broken {
		renewal.Broken = append(renewal.Broken, seq)
	}
	return renewal
}

// sweep ends every session whose time has come and returns the time it used,
// so that one call sees one time.
func (sh *shard) sweep() time.Time {
	now := sh.clock()
	defer sh.free(now) // after the sessions: one that has ended must not get what is free
	if sh.soonest.IsZero() || now.Before(sh.soonest) {
		return now
	}
	sh.soonest = time.Time{}
	var ended []*liveness
	for _, l := range sh.sessions {
		if !now.Before(l.end) {
			ended = append(ended, l)
		} else if sh.soonest.IsZero() || l.end.Before(sh.soonest) {
			sh.soonest = l.end
		}
	}
	sh.end(ended, now)
	return now
}

// end removes sessions with all their claims. All of them go before anything is
// granted: one that has ended must not get what another leaves.
func (sh *shard) end(ended []*liveness, now time.Time) {
	touched := map[string]struct{}{}
	for _, l := range ended {
		delete(sh.sessions, l.id)
		for _, e := range l.claims {
			touched[e.claim.Name] = struct{}{}
			sh.remove(e, now, 0)
		}
	}
	for name := range touched {
		sh.refresh(name, now)
		sh.tidy(name)
	}
}

// dropQueued removes the claims of a session that were not granted.
func (sh *shard) dropQueued(l *liveness, now time.Time) {
	for _, e := range l.claims {
		if !e.granted {
			sh.remove(e, now, 0)
			sh.tidy(e.claim.Name)
		}
	}
}

// find returns the liveness a call of the session may use.
func (sh *shard) find(id driver.SessionID, incarnation uint64) (*liveness, error) {
	if incarnation != sh.incarnation {
		return nil, fmt.Errorf("memstore: session %s: %w", id, driver.ErrReset)
	}
	l := sh.sessions[id]
	if l == nil {
		return nil, fmt.Errorf("memstore: session %s: %w", id, driver.ErrGone)
	}
	return l, nil
}

// grace returns how long nothing new is granted.
func (sh *shard) grace(now time.Time) time.Duration { return max(0, sh.graceEnd.Sub(now)) }

// nextToken counts up and returns the new token.
func (sh *shard) nextToken() driver.Token {
	sh.counter++
	sh.reached++
	return driver.Token(sh.counter * driver.TokenStep)
}

// raise makes the next token at least floor.
func (sh *shard) raise(floor driver.Token) {
	sh.counter = max(sh.counter, int64(floor)/driver.TokenStep-1)
}

// highestToken is a token at least as high as any so far.
func (sh *shard) highestToken() driver.Token { return driver.Token(sh.counter * driver.TokenStep) }

// lock returns the lock of that name, made if there was none. tidy undoes it.
func (sh *shard) lock(name string) *lock {
	l := sh.locks[name]
	if l == nil {
		l = &lock{name: name}
		sh.locks[name] = l
	}
	return l
}

// tidy keeps nothing for a free lock.
func (sh *shard) tidy(name string) {
	if l := sh.locks[name]; l != nil && len(l.grants) == 0 && len(l.queue) == 0 {
		delete(sh.locks, name)
	}
}
