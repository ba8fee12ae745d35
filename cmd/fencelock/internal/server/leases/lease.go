// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock"
)

// State is how far a lease of a client is.
//
//	waiting ──▶ held ──▶ released
//	   │          └────▶ lost
//	   └──▶ busy, or an error
type State string

// The states.
const (
	Waiting  State = "waiting"
	Held     State = "held"
	Busy     State = "busy"
	Lost     State = "lost"
	Released State = "released"
)

var (
	errUnnamed    = errors.New("its client did not renew it for its TTL")
	errNotCarried = errors.New("this server does not have it, and the store cannot carry a lease from one server to another")
	errNotThere   = errors.New("the store no longer has it")
)

// lease is a lock that a client holds or waits for through this server. It is guarded by the
// mutex of all leases.
type lease struct {
	s        *session
	id, lock string
	state    State
	held     *fencelock.Lease
	why      error              // why it was lost, or not acquired
	stop     context.CancelFunc // ends the wait
	decided  chan struct{}      // closed when it no longer waits
	polls    int                // calls that wait for it
	expires  time.Time          // unless the client names it again
	moved    bool               // another server may have a claim, too
	reported bool               // its client got an answer with moved
	wanted   bool
	watched  bool // its client wants to know whether it is wanted
}

// decided is that of a lease which was never waited for.
var decided = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Answer is what a client learns of a lease.
type Answer struct {
	ID    string `json:"id"`
	Lock  string `json:"lock"`
	State State  `json:"state"`
	// Token is the fencing token of a lease that is held. A store without tokens has 0, which is left out.
	Token fencelock.Token `json:"token,string,omitempty"`
	// TrustedMS is how long the client may trust the lease, from before it sent its call.
	TrustedMS int64 `json:"trusted_ms"`
	// Contended is set if another client waits for the lock, of a lease with watch.
	Contended bool `json:"contended,omitempty"`
	// Moved is set if another server may hold the lease, too: the client sends it back with
	// its release.
	Moved bool `json:"moved,omitempty"`
	// Elsewhere is set if this server has not reached the store for a while: the client keeps its lease if it
	// renews at another one.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Why is why it was lost.
	Why string `json:"why,omitempty"`
}

// answerLocked is what the client learns now. ls.mu must be held.
func (l *lease) answerLocked(received time.Time) Answer {
	a := Answer{ID: l.id, Lock: l.lock, State: l.state, Moved: l.moved, Contended: l.wanted}
	if l.state == Held {
		if !l.held.Valid() { // its notice is on the way
			l.loseLocked()
			return l.answerLocked(received)
		}
		a.Token = l.held.Token()
		a.TrustedMS = Trusted(received, l.expires, l.held.Deadline(), l.s.ttl).Milliseconds()
		a.Elsewhere = l.s.all.carries && CutOff(time.Now(), l.held.Deadline(), l.s.ttl)
	}
	if l.why != nil && l.state == Lost {
		a.Why = l.why.Error()
	}
	return a
}

// touchLocked notes that the client named the lease. A lost one is kept no longer by that. ls.mu must be held.
func (l *lease) touchLocked() {
	if l.state != Lost {
		l.expires = time.Now().Add(l.s.ttl)
	}
}

// holdLocked notes that the lease is held, and waits for its loss. ls.mu must be held.
func (l *lease) holdLocked(held *fencelock.Lease) {
	l.state, l.held = Held, held
	l.touchLocked()
	context.AfterFunc(held.Context(), l.lost)
	l.watchLocked()
	l.s.notifyLocked()
}

// lost runs when the context of the lease ends.
func (l *lease) lost() {
	l.s.all.mu.Lock()
	defer l.s.all.mu.Unlock()
	l.loseLocked()
}

// loseLocked notes that the lease is lost. It stays until it would have ended, so that the client learns why. ls.mu must be held.
func (l *lease) loseLocked() {
	if l.state != Held {
		return
	}
	l.state, l.why = Lost, l.held.Err()
	l.s.notifyLocked()
}

// watchLocked notices when another client waits for the lock. ls.mu must be held.
func (l *lease) watchLocked() {
	if !l.watched || l.state != Held {
		return
	}
	held := l.held
	go func() {
		select {
		case <-held.Contended():
			l.s.all.mu.Lock()
			defer l.s.all.mu.Unlock()
			l.wanted = true
			l.s.notifyLocked()
		case <-held.Context().Done():
		}
	}()
}

// endLocked ends the wait, and returns what is to be unlocked without ls.mu. ls.mu must be held.
func (l *lease) endLocked() *fencelock.Lease {
	if l.stop != nil {
		l.stop()
	}
	return l.held
}

const (
	// drift is the share by which the clocks of client and server may run differently.
	drift = 0.01
	// marginShare of the TTL is what a client has to stop after its trusted time.
	marginShare = 10
)

// Trusted is how long a client may trust its lease, counted from before it sent the call that
// was received at a time. expires is when the server unlocks the lease unless the client names
// it again, and deadline is until when the server itself may trust it.
func Trusted(received, expires, deadline time.Time, ttl time.Duration) time.Duration {
	end := expires.Add(-ttl / marginShare)
	if deadline.Before(end) {
		end = deadline
	}
	d := end.Sub(received)
	return max(0, d-time.Duration(float64(d)*drift)).Truncate(time.Millisecond)
}

// CutOff reports whether a server has missed renewals of the lease that it has itself: it renews after a third of its TTL, which
// is at least twice that of the client. What is left is enough for the client to move.
func CutOff(now, deadline time.Time, ttl time.Duration) bool { return deadline.Sub(now) < ttl*3/4 }
