// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// maxHandoffLocks bounds the handoff locks of a store, each of which is a connection.
	maxHandoffLocks = 4
	// handoffLocksAgain is how long after a failure no handoff lock is made.
	handoffLocksAgain = 10 * time.Second
	// handoffLockIdle is how long a handoff lock without a claim keeps its connection, and how often that of a
	// claim which holds its lock is used: servers and proxies close connections that are idle.
	handoffLockIdle = time.Minute
	// handoffLockPatience is how long a claim that is about to queue waits for a new handoff lock.
	handoffLockPatience = 250 * time.Millisecond
)

// handoff locks are the handoff locks of a store on MySQL or MariaDB; on PostgreSQL it has none.
//
//	claim A: queued ── has lock 1 ─────────────── granted ── released: lock 1 is free
//	claim B:        queued ── has lock 2 ── waits for lock 1 ······┘ reads the row: granted
//
// So exactly one process wakes for a handoff, in the memory of the server. A handoff lock is a hint:
// only the row says who has the lock, every wait is bounded, and no statement whose outcome
// matters is sent on the connection of a handoff lock. A claim without a handoff lock before it polls.
type handoffLocks struct {
	s        *Store
	ctx      context.Context
	cancel   context.CancelFunc
	working  sync.WaitGroup
	patience time.Duration
	idleFor  time.Duration // how long a handoff lock has nothing to do until it retires or is touched

	mu sync.Mutex
	handoffPool
	taken map[claimID]*handoffLock
	lost  map[claimID]bool // the connection of the claim's lock has ended, or there was none for it in time
}

// handoffPool are the handoff locks of a store, and whether there may be more.
type handoffPool struct {
	never  bool // they cannot work here
	failed bool // there is none, because the last one could not be made, or broke
	after  time.Time
	all    int // those that are there or are being made
	idle   []*handoffLock
	freed  int                 // those that will be idle in a moment: they are freed, or made
	asking []chan *handoffLock // of claims that wait for one, each with room for it
}

// unsupported is the answer of a Galera node to GET_LOCK.
const unsupported = "1235"

func (b *handoffLocks) init(s *Store) {
	b.s, b.taken, b.lost, b.patience, b.idleFor = s, map[claimID]*handoffLock{}, map[claimID]bool{}, handoffLockPatience, handoffLockIdle
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.never = s.dialect != MySQL || s.opts.Poll || s.opts.Pooler || !s.known
}

// close ends the connections of all handoff locks.
func (b *handoffLocks) close() {
	b.mu.Lock() // no handoff lock is made after it
	b.cancel()
	b.never = true
	b.mu.Unlock()
	b.working.Wait()
}

// off reports whether handoff locks should work here and do not.
func (b *handoffLocks) off() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// take gives a claim a handoff lock, and returns its number, 0 for none.
func (b *handoffLocks) take(ctx context.Context, c claimID) int64 {
	if id := b.of(c); id != 0 {
		return id
	}
	bl := b.get(ctx)
	if bl == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.never && b.taken[c] == nil {
			b.lost[c] = true
		}
		return 0
	}
	return b.give(c, bl)
}

// give gives a claim a handoff lock that was taken out for it, and returns the number of the claim's handoff lock, 0
// for none. An attempt of the claim that overlaps may have got it a handoff lock: the claim keeps that one.
func (b *handoffLocks) give(c claimID, bl *handoffLock) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	has := b.taken[c]
	switch {
	case has == nil && bl.gone:
		return 0
	case has == nil:
		delete(b.lost, c) // otherwise its next wait would take another one, and none would free this
		b.taken[c] = bl
		return bl.id
	case !bl.gone:
		b.putBackLocked(bl)
	}
	return has.id
}

// of returns the number of a claim's handoff lock, 0 for none.
func (b *handoffLocks) of(c claimID) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if bl := b.taken[c]; bl != nil {
		return bl.id
	}
	return 0
}

// wait lets the connection of a claim's handoff lock wait for another handoff lock. It returns nil if the claim
// has none.
func (b *handoffLocks) wait(c claimID, j job) *job {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost[c] {
		b.replaceLocked(c)
	}
	bl := b.taken[c]
	if bl == nil {
		return nil
	}
	j = bl.sendLocked(j)
	return &j
}

// replaceLocked gives a claim another handoff lock if one is idle, and otherwise begins to make one: the claim polls
// until then. Its row keeps the handoff lock that is gone, or none, so no claim waits for this one. b.mu must be held.
func (b *handoffLocks) replaceLocked(c claimID) {
	bl := b.idleLocked()
	if bl == nil {
		b.makeLocked()
		return
	}
	b.taken[c] = bl
	delete(b.lost, c)
}

// free frees the handoff lock of a claim that is gone. No caller waits for it.
func (b *handoffLocks) free(c claimID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.freeLocked(c)
}

func (b *handoffLocks) freeLocked(c claimID) {
	delete(b.lost, c)
	if bl := b.taken[c]; bl != nil {
		delete(b.taken, c)
		bl.sendLocked(job{})
	}
}

// freeAll frees the handoff locks of a session that has ended or is opened again.
func (b *handoffLocks) freeAll(session string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.taken {
		if c.session == session {
			b.freeLocked(c)
		}
	}
	maps.DeleteFunc(b.lost, func(c claimID, _ bool) bool { return c.session == session })
}

// get returns an idle handoff lock, or nil. If one will be idle in a moment it waits for that; otherwise
// it makes one, if the handle has room, and waits a moment for it: in the worst case the
// claim goes without.
func (b *handoffLocks) get(ctx context.Context) *handoffLock {
	b.mu.Lock()
	if bl := b.idleLocked(); bl != nil || !b.makeLocked() {
		b.mu.Unlock()
		return bl
	}
	ask := make(chan *handoffLock, 1)
	b.asking = append(b.asking, ask)
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	select {
	case bl := <-ask:
		return bl
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.asking, ask); i >= 0 {
		b.asking = slices.Delete(b.asking, i, i+1)
		return nil
	}
	return <-ask // it was given one at the last moment
}

// idleLocked takes an idle handoff lock out, or returns nil. b.mu must be held.
func (b *handoffLocks) idleLocked() *handoffLock {
	n := len(b.idle)
	if n == 0 || b.never {
		return nil
	}
	bl := b.idle[n-1]
	b.idle = b.idle[:n-1]
	return bl
}

// makeLocked reports whether a handoff lock will be idle in a moment that no claim asks for. It begins to make one if there
// may be more of them and the handle has room. b.mu must be held.
func (b *handoffLocks) makeLocked() bool {
	switch {
	case b.never:
		return false
	case b.freed > len(b.asking):
		return true
	case b.all >= maxHandoffLocks || time.Now().Before(b.after):
		return false
	case !reserve(b.s.db):
		b.failed = b.failed || b.all == 0
		return false
	}
	b.all++
	b.freed++
	b.working.Go(b.work)
	return true
}

// work makes a handoff lock and serves it until its connection ends.
func (b *handoffLocks) work() {
	bl, shared, err := b.connect()
	works := err == nil && !shared
	b.mu.Lock()
	b.freed--
	if works {
		b.failed = false
		b.putBackLocked(bl)
	}
	b.mu.Unlock()
	if works {
		err = bl.serve()
	}
	if bl != nil {
		b.remove(bl)
	}
	unreserve(b.s.db)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all--
	if (err != nil || shared) && b.ctx.Err() == nil {
		b.never, b.after = b.never || shared || code(err) == unsupported, time.Now().Add(handoffLocksAgain)
		b.failed = b.failed || b.never || b.all == 0
	}
	b.answerLocked(nil)
}

// putBackLocked gives a handoff lock to a claim that asks for one, or makes it idle. b.mu must be held.
func (b *handoffLocks) putBackLocked(bl *handoffLock) {
	if !b.answerLocked(bl) {
		b.idle = append(b.idle, bl)
	}
}

// answerLocked gives a handoff lock, or nil for none, to the first claim that asks. b.mu must be held.
func (b *handoffLocks) answerLocked(bl *handoffLock) bool {
	if len(b.asking) == 0 {
		return false
	}
	b.asking[0] <- bl
	b.asking = b.asking[1:]
	return true
}

// overLocked notes that a handoff lock which was to be freed is, or is gone. b.mu must be held.
func (b *handoffLocks) overLocked(j job) {
	if j.soon {
		b.freed--
	}
}

// retire takes an idle handoff lock out; false if it has a claim.
func (b *handoffLocks) retire(bl *handoffLock) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.idle, bl)
	if i >= 0 {
		b.idle = slices.Delete(b.idle, i, i+1)
	}
	return i >= 0
}

// remove ends a handoff lock: whatever waits for it is woken, and it gets no work any more.
func (b *handoffLocks) remove(bl *handoffLock) {
	b.retire(bl)
	b.mu.Lock()
	defer bl.discard()
	defer b.mu.Unlock()
	bl.gone = true
	maps.DeleteFunc(b.taken, func(c claimID, other *handoffLock) bool {
		if other == bl {
			b.lost[c] = true
		}
		return other == bl
	})
	for {
		select {
		case j := <-bl.jobs:
			b.overLocked(j)
			close(j.done)
		default:
			return
		}
	}
}

// reserved counts the connections of each handle on which claims of stores wait. Several stores may
// share a handle, so the count is that of the handle.
var reserved = struct {
	sync.Mutex
	of map[*sql.DB]int
}{of: map[*sql.DB]int{}}

// mayReserve reports whether one more connection may be kept, by the limit of the handle (0
// for none) and how many are kept: never more than half. A handle without a free connection
// cannot keep the sessions alive.
func mayReserve(limit, kept int) bool { return limit <= 0 || 2*(kept+1) <= limit }

// reserve asks to keep one more connection of a handle.
func reserve(db *sql.DB) bool {
	limit := db.Stats().MaxOpenConnections
	reserved.Lock()
	defer reserved.Unlock()
	if !mayReserve(limit, reserved.of[db]) {
		return false
	}
	reserved.of[db]++
	return true
}

// unreserve gives a connection back.
func unreserve(db *sql.DB) {
	reserved.Lock()
	defer reserved.Unlock()
	if reserved.of[db]--; reserved.of[db] == 0 {
		delete(reserved.of, db)
	}
}
