// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"maps"
	"sync"

	"github.com/fencelock/fencelock/driver"
)

// Shard is what this client knows of one shard of the store: its session
// there, and a queue for every name that is exclusively held or waited for.
//
// One mutex guards it all: sessions, queues, grants and leases of the shard. It
// is never held during I/O; the only mutex taken under it is the client's.
type Shard struct {
	c  *Client
	id string

	mu            sync.Mutex
	closed        bool
	session       *session // opening or live, or nil
	failing       bool     // the last session could not be opened
	queues        map[string]*queue
	lingerBackoff lingerBackoff
}

// queueLocked returns the queue of that name and makes it if needed. sh.mu must be held.
func (sh *Shard) queueLocked(name string) *queue {
	q := sh.queues[name]
	if q == nil {
		q = &queue{name: name}
		sh.queues[name] = q
	}
	return q
}

// tidyLocked drops the queue of a name that is neither held exclusively nor waited
// for. sh.mu must be held.
func (sh *Shard) tidyLocked(q *queue) {
	if q.idle() && sh.queues[q.name] == q {
		delete(sh.queues, q.name)
	}
}

// enter returns the shard's live session with one more user, which must leave
// it. If the shard has no live session, enter opens one.
func (sh *Shard) enter(ctx context.Context) (*session, error) {
	for {
		sh.mu.Lock()
		s := sh.session
		switch {
		case sh.closed:
			sh.mu.Unlock()
			return nil, ErrClosed
		case s == nil:
			s = newSession(sh)
			if !sh.c.Background(s.run) {
				sh.mu.Unlock()
				return nil, ErrClosed
			}
			sh.session = s
		case s.state.live():
			s.users++
			sh.mu.Unlock()
			return s, nil
		}
		sh.mu.Unlock()
		select {
		case <-s.ready:
			if s.openErr != nil {
				return nil, s.openErr
			}
		case <-ctx.Done():
			return nil, CtxError(ctx)
		}
	}
}

// close ends everything with ErrClosed.
func (sh *Shard) close() {
	sh.mu.Lock()
	sh.closed = true
	s := sh.session
	for _, q := range sh.queues {
		for w := q.pop(); w != nil; w = q.pop() {
			w.ready <- turn{err: ErrClosed}
		}
	}
	sh.mu.Unlock()
	if s != nil {
		s.end(ErrClosed)
	}
}

// queue is where the goroutines of one client wait for one name.
//
//	waiter ─ waiter ─ waiter ─ acquiring goroutine ──one claim──▶ store
//	  (wait on their channel)   (makes the calls)
//
// At most one goroutine acquires: it makes the calls for the one claim that stands
// for all of them. When it stops, granted or not, it hands off to the next; no
// goroutine is started for that. While the client holds the lock exclusively no
// goroutine acquires: the unlock hands the grant to the next waiter, or returns it to
// the store and lets the next waiter acquire. A waiter that gives up hands on what it
// was given at that moment.
//
//	idle ──▶ acquiring ──▶ held ──▶ returning
//
//	idle to acquiring       Lock
//	idle to held            TryLock was granted
//	acquiring to held       the claim was granted exclusively
//	held to held            unlocked, and the grant is handed to the next waiter
//	held to lingering       unlocked, and the client keeps the grant without a lease
//	lingering to held       locked again
//	lingering to idle       the grant is given back
//	held to returning       unlocked, and the grant is given back to the store
//	to acquiring or idle    handOffLocked, with or without a waiter: the acquisition gave up
//	                        or was granted a shared lock; the grant was lost, downgraded or
//	                        is back in the store
//
// All of it is guarded by the shard's mutex.
type queue struct {
	name        string
	first, last *waiter
	state       queueState
	exclusive   *grant     // in queueHeld and queueLingering: what the client holds
	sent        *sentClaim // the claim under way, if any
	seen        seen
}

// queueState is what the client does about a name.
type queueState uint8

const (
	// queueIdle: the client neither holds the lock exclusively nor wants it.
	queueIdle queueState = iota
	// queueAcquiring: a goroutine makes the calls, or is about to.
	queueAcquiring
	// queueHeld: the client has an exclusive grant.
	queueHeld
	// queueReturning: the grant is being given back. Until the store has answered, an
	// attempt would only find the client's own claim in its way.
	queueReturning
	// queueLingering: the client has an exclusive grant without a lease. No caller waits.
	queueLingering
)

// waiter is one goroutine in a queue.
type waiter struct {
	terms      *driver.Terms
	prev, next *waiter
	queued     bool
	ready      chan turn // one turn is sent, ever
}

// newWaiter returns a waiter, used before if there is one: under contention every
// acquisition needs one. They are kept by the client and not for all, because a
// channel made in a synctest bubble must stay in it.
func (c *Client) newWaiter(terms *driver.Terms) *waiter {
	w, _ := c.waiters.Get().(*waiter)
	if w == nil {
		w = &waiter{ready: make(chan turn, 1)}
	}
	w.terms = terms
	return w
}

// recycle keeps a waiter for later use. It must be in no queue, and its channel empty.
func (c *Client) recycle(w *waiter) {
	w.terms = nil
	c.waiters.Put(w)
}

// turn is what a waiter gets: a lease, an error, or, with neither, the task to
// acquire for the queue.
type turn struct {
	lease *Lease
	err   error
}

// idle reports whether nothing has to be kept for the name.
func (q *queue) idle() bool { return q.state == queueIdle && q.first == nil }

// hold makes g the grant that the client holds exclusively.
func (q *queue) hold(g *grant) { q.state, q.exclusive, g.q = queueHeld, g, q }

func (q *queue) push(w *waiter) {
	w.prev, w.queued = q.last, true
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
}

// drop takes a waiter out of the queue and reports whether it was still in it.
func (q *queue) drop(w *waiter) bool {
	if !w.queued {
		return false
	}
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.queued = nil, nil, false
	return true
}

func (q *queue) pop() *waiter {
	w := q.first
	if w != nil {
		q.drop(w)
	}
	return w
}

// handOffLocked ends what the caller did for the queue and lets the next waiter
// acquire. A claim that is in the store's queue already stays there for a waiter who
// wants the same, so that its position is not lost; otherwise it is returned, to be
// withdrawn. sh.mu must be held.
func (sh *Shard) handOffLocked(q *queue) (stale *sentClaim) {
	q.state, q.exclusive = queueIdle, nil
	next := q.first
	if p := q.sent; p != nil && (next == nil || !sameTerms(p.claim.Terms, next.terms)) {
		stale, q.sent = p, nil
	}
	if next != nil {
		q.state = queueAcquiring
		q.pop().ready <- turn{}
	}
	sh.tidyLocked(q)
	return stale
}

// sameTerms reports whether a grant made for a can be handed to a waiter who asked
// for b: the holder record must not mislead its readers. A grant that does not linger is
// fine for any: its name may back off. The trace is left out: it
// names the first of those the grant was handed to.
func sameTerms(a, b *driver.Terms) bool {
	if a == b {
		return true
	}
	return a.Mode == b.Mode && a.Weight == b.Weight && a.Limit == b.Limit && a.Reentry == b.Reentry &&
		a.MinHold == b.MinHold && a.MaxHold == b.MaxHold && (a.Linger == b.Linger || a.Linger == 0) &&
		a.Record.Owner == b.Record.Owner && a.Record.Reason == b.Record.Reason &&
		maps.Equal(a.Record.Labels, b.Record.Labels)
}
