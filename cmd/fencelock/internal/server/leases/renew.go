// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
)

// Named is a lease as its client knows it.
type Named struct {
	ID     string          `json:"id"`
	Lock   string          `json:"lock"`
	Token  fencelock.Token `json:"token,string"`
	Reason string          `json:"reason,omitempty"`
	// Watch asks for Answer.Contended, and Contended is set if the client knows it already.
	Watch     bool `json:"watch,omitempty"`
	Contended bool `json:"contended,omitempty"`
	// Moved is that of the last answer.
	Moved bool `json:"moved,omitempty"`
}

// maxPolls is how many renewals of a session wait at once. Each change of a lease wakes all of them, so the oldest
// returns when there is another.
const maxPolls = 4

// Renew keeps the leases of a client that it names, and joins those that another server holds.
// It then waits for a change that the client does not know, at most for wait.
func (ls *Leases) Renew(ctx context.Context, c *Caller, named []Named, wait time.Duration) ([]Answer, error) {
	others := ls.touch(c, named)
	if err := ls.joinAll(ctx, c, others); err != nil {
		return nil, err
	}
	joined := map[string]bool{}
	for _, n := range others {
		joined[n.ID] = true
	}
	poll := ls.poll(c)
	until := time.NewTimer(min(wait, c.Handle.TTL()/2))
	defer until.Stop()
	due := false // what was reported once is not news again
	for {
		answers, news, changed := ls.report(c, named, poll)
		due = due || news
		if lost := lostSince(named, answers, joined); len(lost) > 0 {
			if err := ls.joinAll(ctx, c, lost); err != nil {
				return nil, err
			}
			continue
		}
		if due || wait <= 0 || changed == nil || !ls.pause(ctx, changed, until.C) {
			return answers, nil
		}
	}
}

// lostSince returns the leases that were lost during the wait, and notes them in joined: another server may hold them, which
// only the store knows.
func lostSince(named []Named, answers []Answer, joined map[string]bool) (lost []Named) {
	for i, n := range named {
		if answers[i].State == Lost && n.Token != 0 && !joined[n.ID] {
			joined[n.ID] = true
			lost = append(lost, n)
		}
	}
	return lost
}

// touch keeps the leases that this server has, and returns the others.
func (ls *Leases) touch(c *Caller, named []Named) (others []Named) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	s := ls.sessions[c.Handle.key(c.User)]
	if s != nil {
		s.used = time.Now()
	}
	for _, n := range named {
		if l := s.lease(&n); l != nil && l.hasLocked(n.Token) {
			l.touchLocked()
			if n.Watch && !l.watched {
				l.watched = true
				l.watchLocked()
			}
		} else if !s.released(n.ID) {
			others = append(others, n)
		}
	}
	return others
}

// poll counts a renewal, and lets the oldest one that waits return. The session of a client that has moved to this server is made
// by a join, so a renewal is counted after it has joined.
func (ls *Leases) poll(c *Caller) int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	s := ls.sessions[c.Handle.key(c.User)]
	if s == nil {
		return 0
	}
	s.polls++
	s.notifyLocked()
	return s.polls
}

// hasLocked reports whether this server has the grant of which a client knows the token. If it does not, another
// server may: this one has lost the lease, waits for it still, or was granted it before the client got the grant that it
// names. The last cannot be trusted, because an operator may have broken it a moment ago: it is dropped. ls.mu must be held.
func (l *lease) hasLocked(token fencelock.Token) bool {
	switch {
	case token == 0: // only waited for
		return l.state != Lost
	case l.state == Held && l.held.Token() != token:
		l.s.dropLocked(l, Lost, errNotThere)
		l.s.all.unlockLaterLocked(l.endLocked())
		return false
	}
	return l.state == Held
}

// lease finds the lease that a client names. A nil session has none.
func (s *session) lease(n *Named) *lease {
	if s == nil {
		return nil
	}
	if l := s.leases[n.ID]; l != nil && l.lock == n.Lock {
		return l
	}
	return nil
}

// released reports whether the client has released a lease. A nil session has none.
func (s *session) released(id string) bool {
	return s != nil && slices.ContainsFunc(s.ended, func(e ended) bool { return e.id == id && !e.unnamed })
}

// unnamed reports whether a lease ended because its client did not name it in time. A nil session has none.
func (s *session) unnamed(id string) bool {
	return s != nil && slices.Contains(s.ended, ended{id: id, had: true, unnamed: true})
}

// gave reports whether the client has released a lease that this server had. A nil session has none.
func (s *session) gave(id string) bool {
	return s != nil && slices.Contains(s.ended, ended{id: id, had: true})
}

// report returns what the client does not know yet, whether there is any or others wait for it, and what is closed
// when there may be more.
func (ls *Leases) report(c *Caller, named []Named, poll int) (answers []Answer, news bool, changed <-chan struct{}) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	s := ls.sessions[c.Handle.key(c.User)]
	answers = make([]Answer, 0, len(named))
	for _, n := range named {
		a := Answer{ID: n.ID, Lock: n.Lock, State: Lost, Why: errNotThere.Error()}
		if l := s.lease(&n); l != nil && (n.Token == 0 || l.state == Lost || l.hasLocked(n.Token)) {
			a = l.answerLocked(c.Received)
			news = news || l.moved && !l.reported
			l.reported = l.moved
		} else if s.released(n.ID) {
			a.State, a.Why = Released, ""
		} else if !ls.carries {
			a.Why = errNotCarried.Error()
		}
		a.Moved = a.Moved || n.Moved
		news = news || a.State == Lost || a.Elsewhere || a.Contended && !n.Contended
		answers = append(answers, a)
	}
	if s != nil {
		changed = s.changeLocked()
		news = news || s.polls-poll >= maxPolls
	}
	return answers, news, changed
}

// maxJoins is how many leases of one call are joined at once.
const maxJoins = 8

// joinAll joins leases that another server holds, as far as the store has them. It
// returns an error if the store did not answer: whether the client still holds the leases is not known then.
func (ls *Leases) joinAll(ctx context.Context, c *Caller, named []Named) error {
	if !ls.carries || len(named) == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	errs := make([]error, len(named))
	slots := make(chan struct{}, maxJoins)
	var all sync.WaitGroup
	for i := range named {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[i] = ls.join(ctx, c, &named[i])
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// join joins the grant of a lease. If the store grants the lock with another token, the lease
// was lost and the lock was free: it is given back.
func (ls *Leases) join(ctx context.Context, c *Caller, n *Named) error {
	held, err := ls.mutex(c, &Request{ID: n.ID, Lock: n.Lock, Reason: n.Reason}).TryLock(ctx)
	switch {
	case errors.Is(err, fencelock.ErrBusy), errors.Is(err, fencelock.ErrGrace):
		return nil
	case err != nil:
		return err
	case held.Token() != n.Token:
		_ = held.Unlock(ctx)
		return nil
	}
	ls.mu.Lock()
	l, err := ls.joinedLocked(c, n)
	if l != nil {
		l.moved = true
		l.holdLocked(held)
		held = nil
	}
	ls.mu.Unlock()
	_ = held.Unlock(ctx) // a call at the same time joined it, or it cannot be held here
	return err
}

// joinedLocked returns the lease of a grant that was joined, nil if it is not to be held. ls.mu must be held.
func (ls *Leases) joinedLocked(c *Caller, n *Named) (*lease, error) {
	s, err := ls.sessionLocked(c)
	if err != nil {
		return nil, err
	}
	l := s.leases[n.ID]
	switch {
	case s.over:
		return nil, ErrOver
	case l != nil && l.lock != n.Lock: // it must be unlocked one day
		return nil, ErrOtherLock
	case l != nil && l.state == Held, s.released(n.ID):
		return nil, nil
	case l != nil && l.state == Waiting: // it was granted through another server
		l.endLocked()
		l.watched = l.watched || n.Watch
		return l, nil
	case l == nil && !s.roomLocked(maxJoined):
		return nil, ErrTooManyLeases
	}
	l = &lease{s: s, id: n.ID, lock: n.Lock, watched: n.Watch, decided: decided}
	s.leases[n.ID] = l
	return l, nil
}
