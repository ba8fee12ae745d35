// SPDX-License-Identifier: Apache-2.0

package core

import (
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/timing"
)

// watch is what a session knows of the callers that wait behind one of its claims. It
// exists from the first call of Contended to the end of the grant, and for a claim that may
// linger from before its first attempt. Guarded by the shard's mutex.
type watch struct {
	// wanted is set when the store notified the session: a lease that the grant is
	// handed to is wanted, too.
	wanted bool
	// g is the grant of a claim that may linger, once it is granted: a notice may come
	// before the answer to the attempt.
	g *grant
	// leases are the channels of Contended.
	leases map[*Lease]*notice
	// asked is closed when the first request for notices has ended; nil if none was sent.
	asked chan struct{}
}

// notice is the channel of one lease.
type notice struct {
	ch   chan struct{}
	sent bool
}

func (n *notice) send() {
	if !n.sent {
		n.sent = true
		close(n.ch)
	}
}

// sendAll notifies every lease. A nil w is fine.
func (w *watch) sendAll() {
	if w == nil {
		return
	}
	for _, n := range w.leases {
		n.send()
	}
}

// drop removes a lease that has ended. A nil w is fine.
func (w *watch) drop(l *Lease) {
	if w != nil {
		delete(w.leases, l)
	}
}

// Contended returns a channel that is closed when another caller waits for the lock. It is
// nil if the lease has ended.
func (l *Lease) Contended() <-chan struct{} {
	g, s := l.g, l.g.s
	s.sh.mu.Lock()
	defer s.sh.mu.Unlock()
	if l.state.get() != leaseHeld || !g.state.attached() || !s.state.live() {
		return nil
	}
	w := s.watchLocked(g.claim.Seq)
	n := w.leases[l]
	if n == nil {
		n = &notice{ch: make(chan struct{})}
		w.leases[l] = n
		s.watchNameLocked(g.claim.Name, w)
	}
	if w.wanted || g.waitedForLocallyLocked() {
		n.send()
	}
	if !g.claim.Watch && s.c.caps.Contended != driver.NoNotice {
		g.claim.Watch, w.asked = true, make(chan struct{})
		g.attempts++ // an unlock during the call must tombstone the claim
		if !s.c.Background(func() { g.watchInStore(w.asked) }) {
			g.attempts--
			close(w.asked)
		}
	}
	return n.ch
}

// watchLocked returns the watch of a claim and makes it if needed. sh.mu must be held.
func (s *session) watchLocked(seq uint64) *watch {
	w := s.watches[seq]
	if w == nil {
		w = &watch{leases: map[*Lease]*notice{}}
		if s.watches == nil {
			s.watches = map[uint64]*watch{}
		}
		s.watches[seq] = w
	}
	return w
}

// wanted takes the store's notice that a claim waits behind the claim seq. It may be
// about a claim that the session has withdrawn.
func (s *session) wanted(seq uint64) {
	s.sh.mu.Lock()
	defer s.sh.mu.Unlock()
	if w := s.watches[seq]; w != nil {
		if w.g != nil && !w.wanted {
			s.sh.lingerBackoff.begin(w.g.claim.Name, w.g.paidLocked())
		}
		w.wanted = true
		w.sendAll()
		if w.g != nil {
			w.g.recallLocked()
		}
	}
}

// A goroutine of the same client may wait in the client's own queue, behind its exclusive
// grant, or in the store, behind any other grant of the client: that of a reader, a permit,
// or one with ReentrantAs. The store notifies of the latter, too, but not every store at
// once. So the session counts those claims by name, and knows by name who asked for notices.

// waitedForLocallyLocked reports whether goroutines of the same client wait for the
// grant. sh.mu must be held.
func (g *grant) waitedForLocallyLocked() bool {
	return g.s.waiting[g.claim.Name] > 0 || g.q != nil && g.q.exclusive == g && g.q.first != nil
}

// notifyHolderLocked notifies the leases of the client's own grant that a goroutine waits
// for it. The store knows nothing of that one. sh.mu must be held.
func (q *queue) notifyHolderLocked() {
	if g := q.exclusive; g != nil {
		g.s.watches[g.claim.Seq].sendAll()
	}
}

// beginWaitLocked notes that the claim waits in the store, and notifies the holders of this
// client. sh.mu must be held.
func (a *acquisition) beginWaitLocked(s *session) {
	if a.waitsOn == s {
		return
	}
	a.waitsOn = s
	if s.waiting == nil {
		s.waiting = map[string]int{}
	}
	s.waiting[a.name]++
	for w := range s.watched[a.name] {
		w.sendAll()
	}
}

// endWaitLocked notes that the claim does not wait any more. sh.mu must be held.
func (a *acquisition) endWaitLocked() {
	s := a.waitsOn
	if s == nil {
		return
	}
	a.waitsOn = nil
	if s.waiting[a.name]--; s.waiting[a.name] == 0 {
		delete(s.waiting, a.name)
	}
}

// endWait is endWaitLocked for a caller without the mutex.
func (a *acquisition) endWait() {
	if a.waitsOn != nil { // most acquisitions have not waited
		a.sh.mu.Lock()
		a.endWaitLocked()
		a.sh.mu.Unlock()
	}
}

// watchNameLocked makes a watch known by the name of its lock. sh.mu must be held.
func (s *session) watchNameLocked(name string, w *watch) {
	if s.watched == nil {
		s.watched = map[string]map[*watch]struct{}{}
	}
	if s.watched[name] == nil {
		s.watched[name] = map[*watch]struct{}{}
	}
	s.watched[name][w] = struct{}{}
}

// unwatchLocked drops what is known of the callers behind a grant that ends. sh.mu must be held.
func (g *grant) unwatchLocked() {
	s, name := g.s, g.claim.Name
	w := s.watches[g.claim.Seq]
	if w == nil {
		return
	}
	delete(s.watches, g.claim.Seq)
	delete(s.watched[name], w)
	if len(s.watched[name]) == 0 {
		delete(s.watched, name)
	}
}

// watchInStore attempts the granted claim again, with Watch, until the store answers. What
// becomes of the grant is not its matter: a broken one is found by the next renewal. A
// reclaim in between carries Watch itself. It closes asked after its first call.
func (g *grant) watchInStore(asked chan struct{}) {
	s, unsure := g.s, false
	answered := sync.OnceFunc(func() { close(asked) })
	defer answered()
	defer func() {
		s.sh.mu.Lock()
		g.attempts--
		g.unsure = g.unsure || unsure
		s.sh.mu.Unlock()
	}()
	for failures := 1; ; failures++ {
		s.sh.mu.Lock()
		p := &sentClaim{s: s, claim: g.claim, held: true} // read again each time: a downgrade changes it
		held := g.state.attached() && s.state.live()
		s.sh.mu.Unlock()
		if !held {
			return
		}
		p.claim.Queue = false // what is not granted any more must not be queued
		_, err := p.attempt(s.ctx)
		unsure = unsure || p.unsure
		switch {
		case err == nil, s.endIfGone(err):
			return
		case errors.Is(err, driver.ErrReset):
			s.renewNow()
		case !Transient(err) && err != errNotReclaimed:
			return
		}
		answered()
		if !Sleep(s.ctx, timing.Backoff(failures, s.trusted()/100, s.trusted()/12, rand.Float64())) {
			return
		}
	}
}
