// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
)

// Limits of a server. A session counts while it has leases, and for a TTL after that.
const (
	MaxSessions     = 50_000
	MaxUserSessions = 5_000
	MaxLeases       = 100 // of a session, held or waited for
	MinTTL          = time.Second
	// maxJoined is how many leases a session has at most with those that other servers granted. A join that is refused
	// ends a lease which its client holds, so the limit is far above what a client reaches.
	maxJoined = 4 * MaxLeases
	// maxEnded is how many released leases a session remembers, so that a late acquisition
	// is not made.
	maxEnded = 64
)

// Errors of calls.
var (
	ErrOver            = errors.New("the session was ended; make another one")
	ErrTooManySessions = errors.New("too many sessions; end those that are no longer used")
	ErrTooManyLeases   = errors.New("the session has too many leases; use a second session")
	ErrOtherLock       = errors.New("the id was used for another lock; use a new id for each acquisition")
)

// Leases has the leases that one server holds for clients.
type Leases struct {
	client *fencelock.Client
	// carries is set if another server can join a lease.
	carries bool
	// closing is closed when the server ends: calls that wait return.
	closing <-chan struct{}
	workers workers

	mu       sync.Mutex
	sessions map[[sha256.Size]byte]*session
	users    map[string]int // sessions of each user
	unlocks  unlocks
}

// New has no leases yet. The client must not hand locks from one waiter to another by
// itself, because the record of a holder would be that of the one before; and it must
// not be closed while clients trust their leases.
func New(client *fencelock.Client, carries bool, closing <-chan struct{}) *Leases {
	return &Leases{client: client, carries: carries, closing: closing, workers: workers{work: make(chan func()), closing: closing},
		sessions: map[[sha256.Size]byte]*session{}, users: map[string]int{}}
}

// Carries reports whether a lease survives its server.
func (ls *Leases) Carries() bool { return ls.carries }

// Sessions counts those that this server knows.
func (ls *Leases) Sessions() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.sessions)
}

// Caller is a client with its session. Received is when its call came in.
type Caller struct {
	User     string
	Handle   Handle
	Received time.Time
}

// session is what a server knows of a client. It is guarded by the mutex of all leases.
type session struct {
	all     *Leases
	key     [sha256.Size]byte
	user    string
	ttl     time.Duration
	leases  map[string]*lease
	ended   []ended // the last leases that were released, or that the client no longer named
	over    bool
	used    time.Time
	timer   *time.Timer
	polls   int           // renewals so far
	changed chan struct{} // closed when a lease changes; nil while no call waits for that
}

// ended is a lease that was released, or, if it is unnamed, that its client did not renew. had is set if this server had it: a client may
// release what another server holds.
type ended struct {
	id      string
	had     bool
	unnamed bool
}

// sessionLocked finds the session of a caller, or makes it. ls.mu must be held.
func (ls *Leases) sessionLocked(c *Caller) (*session, error) {
	key := c.Handle.key(c.User)
	if s := ls.sessions[key]; s != nil {
		s.used = time.Now()
		return s, nil
	}
	if len(ls.sessions) >= MaxSessions || ls.users[c.User] >= MaxUserSessions {
		return nil, ErrTooManySessions
	}
	s := &session{all: ls, key: key, user: c.User, ttl: c.Handle.TTL(), leases: map[string]*lease{}, used: time.Now()}
	s.timer = time.AfterFunc(s.ttl, s.check)
	ls.sessions[key] = s
	ls.users[c.User]++
	return s, nil
}

// check unlocks leases that the client no longer names, and drops an unused session.
func (s *session) check() {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	now := time.Now()
	next := s.keptUntil()
	for _, l := range s.leases {
		end := l.expires
		if l.polls > 0 {
			end = now.Add(s.ttl) // from the end of the call that waits
		}
		if !end.After(now) {
			s.dropLocked(l, Lost, errUnnamed)
			s.endedLocked(ended{id: l.id, had: true, unnamed: true}) // a client that was paused releases it later
			next = s.keptUntil()
			s.all.unlockLaterLocked(l.endLocked())
		} else if end.Before(next) || !next.After(now) {
			next = end
		}
	}
	if len(s.leases) == 0 && !next.After(now) {
		delete(s.all.sessions, s.key)
		if s.all.users[s.user]--; s.all.users[s.user] == 0 {
			delete(s.all.users, s.user)
		}
		return
	}
	s.timer.Reset(max(next.Sub(now), s.ttl/20))
}

// roomLocked reports whether the session can have another lease, of at most a number. Lost ones do not count, and the reasons of
// their losses are dropped when there are too many. ls.mu must be held.
func (s *session) roomLocked(most int) bool {
	if len(s.leases) < most {
		return true
	}
	n := 0
	for _, l := range s.leases {
		switch {
		case l.state != Lost:
			n++
		case len(s.leases) >= maxJoined:
			s.dropLocked(l, Lost, l.why)
			s.all.unlockLaterLocked(l.endLocked())
		}
	}
	return n < most
}

// dropLocked takes a lease out of the session. ls.mu must be held.
func (s *session) dropLocked(l *lease, to State, why error) {
	delete(s.leases, l.id)
	l.state, l.why = to, why
	if to == Released {
		s.endedLocked(ended{id: l.id, had: true})
	}
	s.notifyLocked()
}

// keptUntil is until when the session is kept if it has no leases: some TTLs longer if it can tell a client that was paused that
// its lease is lost. ls.mu must be held.
func (s *session) keptUntil() time.Time {
	if slices.ContainsFunc(s.ended, func(e ended) bool { return e.unnamed }) {
		return s.used.Add(4 * s.ttl)
	}
	return s.used.Add(s.ttl)
}

// endedLocked notes that a lease has ended. ls.mu must be held.
func (s *session) endedLocked(e ended) {
	if len(s.ended) == maxEnded {
		s.ended = s.ended[1:]
	}
	s.ended = append(s.ended, e)
}

// notifyLocked ends the waits of calls for a change. ls.mu must be held.
func (s *session) notifyLocked() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// changeLocked is closed when a lease changes. ls.mu must be held.
func (s *session) changeLocked() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// pause waits for a channel or a time, and reports whether it is worth going on.
func (ls *Leases) pause(ctx context.Context, event <-chan struct{}, until <-chan time.Time) bool {
	select {
	case <-event:
		return true
	case <-until:
	case <-ctx.Done():
	case <-ls.closing:
	}
	return false
}
