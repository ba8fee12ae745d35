// SPDX-License-Identifier: Apache-2.0

package remote

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
	// Watch asks for Answer.Wanted, and Wanted is set if the client knows it already.
	Watch  bool `json:"watch,omitempty"`
	Wanted bool `json:"wanted,omitempty"`
	// Moved is that of the last answer.
	Moved bool `json:"moved,omitempty"`
}

// Renew keeps the leases of a client that it names, and joins those that another server holds.
// It then waits for a change that the client does not know, at most for wait.
func (b *Book) Renew(ctx context.Context, c *Caller, named []Named, wait time.Duration) ([]Answer, error) {
	if err := b.joinAll(ctx, c, b.touch(c, named)); err != nil {
		return nil, err
	}
	until := time.NewTimer(min(wait, c.Handle.TTL()/2))
	defer until.Stop()
	for {
		answers, news, changed := b.report(c, named)
		if news || wait <= 0 || changed == nil || !b.pause(ctx, changed, until.C) {
			return answers, nil
		}
	}
}

// touch keeps the leases that this server has, and returns the others.
func (b *Book) touch(c *Caller, named []Named) (others []Named) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sessions[c.Handle.key(c.User)]
	if s != nil {
		s.used = time.Now()
	}
	for _, n := range named {
		l := s.lease(&n)
		if l == nil || l.state == Lost { // another server may have it
			if !s.released(n.ID) {
				others = append(others, n)
			}
			continue
		}
		l.touchLocked()
		if n.Watch && !l.watched {
			l.watched = true
			l.watchLocked()
		}
	}
	return others
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
func (s *session) released(id string) bool { return s != nil && slices.Contains(s.ended, id) }

// report returns what the client does not know yet, whether there is any, and what is closed when
// there may be more.
func (b *Book) report(c *Caller, named []Named) (answers []Answer, news bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sessions[c.Handle.key(c.User)]
	answers = make([]Answer, 0, len(named))
	for _, n := range named {
		a := Answer{ID: n.ID, Lock: n.Lock, State: Lost, Why: errNotThere.Error()}
		if l := s.lease(&n); l != nil {
			a = l.answerLocked(c.Received)
		} else if s.released(n.ID) {
			a.State, a.Why = Released, ""
		} else if !b.carries {
			a.Why = errNotCarried.Error()
		}
		a.Moved = a.Moved || n.Moved
		news = news || a.State == Lost || a.Wanted && !n.Wanted
		answers = append(answers, a)
	}
	if s != nil {
		changed = s.changeLocked()
	}
	return answers, news, changed
}

// maxJoins is how many leases of one call are joined at once.
const maxJoins = 8

// joinAll joins leases that another server holds, as far as the store has them. It
// returns an error if the store did not answer: whether the client still holds the leases is not known then.
func (b *Book) joinAll(ctx context.Context, c *Caller, named []Named) error {
	if !b.carries || len(named) == 0 {
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
			errs[i] = b.join(ctx, c, &named[i])
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// join joins the grant of a lease. If the store grants the lock with another token, the lease
// was lost and the lock was free: it is given back.
func (b *Book) join(ctx context.Context, c *Caller, n *Named) error {
	held, err := b.mutex(c, &Request{ID: n.ID, Lock: n.Lock, Reason: n.Reason}).TryLock(ctx)
	switch {
	case errors.Is(err, fencelock.ErrBusy):
		return nil
	case err != nil:
		return err
	case held.Token() != n.Token:
		_ = held.Unlock(ctx)
		return nil
	}
	b.mu.Lock()
	s, err := b.sessionLocked(c)
	old := s.lease(n)
	known := old != nil && old.state != Lost
	switch {
	case err == nil && s.over:
		err = ErrOver
	case err == nil && !known && len(s.leases) >= MaxLeases:
		err = ErrTooManyLeases
	case err == nil && !known:
		l := &lease{s: s, id: n.ID, lock: n.Lock, moved: true, watched: n.Watch}
		s.leases[n.ID] = l
		l.holdLocked(held)
		held = nil
	}
	b.mu.Unlock()
	if held != nil { // a call at the same time joined it, or it cannot be held here
		_ = held.Unlock(ctx)
	}
	return err
}
