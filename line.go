// SPDX-License-Identifier: Apache-2.0

package fencelock

import "github.com/fencelock/fencelock/driver"

// line is where the goroutines of one client queue for one name.
//
//	waiter ─ waiter ─ waiter ─ driver ──one claim──▶ store
//	  (wait on their channel)   (its goroutine makes the calls)
//
// At most one goroutine drives: it makes the calls for the one claim that
// stands for all of them. Whoever stops driving, granted or not, hands over to
// the next; no goroutine is started for it. While an exclusive grant is in this
// client nobody drives: its unlock passes the grant on or lets the next drive.
// A waiter that gives up hands on whatever it was given at that moment.
//
// All of it is guarded by the shard's mutex.
type line struct {
	name        string
	first, last *waiter
	driven      bool     // somebody drives, or is about to
	exclusive   *grant   // held by this client
	pending     *pending // the claim under way, if any
}

// waiter is one goroutine in a line.
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

// recycle is for a waiter that is in no line and whose turn was taken, or never
// given.
func (c *Client) recycle(w *waiter) {
	w.terms = nil
	c.waiters.Put(w)
}

// turn is what a waiter gets: a lease, an error, or, with neither, the task of
// driving the line.
type turn struct {
	lease *Lease
	err   error
}

// pending is a claim that was or may have been sent.
type pending struct {
	s     *session
	claim driver.Claim
	sent  bool // an attempt has been made
	// unsure is set when an attempt may still be on its way; a withdrawal must
	// then bury the claim, or it would come back under a session that lives.
	unsure bool
}

// idle says whether nobody needs the line.
func (ln *line) idle() bool { return !ln.driven && ln.first == nil && ln.exclusive == nil }

func (ln *line) push(w *waiter) {
	w.prev, w.queued = ln.last, true
	if ln.last == nil {
		ln.first = w
	} else {
		ln.last.next = w
	}
	ln.last = w
}

// drop takes a waiter out of the line and says whether it was still in it.
func (ln *line) drop(w *waiter) bool {
	if !w.queued {
		return false
	}
	if w.prev == nil {
		ln.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		ln.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.queued = nil, nil, false
	return true
}

func (ln *line) pop() *waiter {
	w := ln.first
	if w != nil {
		ln.drop(w)
	}
	return w
}

// baton ends the caller's driving and lets the next waiter drive. A claim that
// is in the store's line already stays there for a waiter who wants the same,
// so that the turn is not lost; for anybody else it is returned, to be
// withdrawn.
func (sh *shard) baton(ln *line) (stale *pending) {
	ln.driven = false
	next := ln.first
	if p := ln.pending; p != nil && (next == nil || !sameWish(p.claim.Terms, next.terms)) {
		stale, ln.pending = p, nil
	}
	if next != nil && ln.exclusive == nil {
		ln.driven = true
		ln.pop().ready <- turn{}
	}
	sh.tidy(ln)
	return stale
}
