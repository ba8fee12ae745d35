// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock"
)

// Release gives a lease back, or ends the wait for it. Releasing again changes nothing. On a store that cannot carry leases it is lost
// unless this server has or had it: another server may hold it, and keeps the lock taken until the TTL of the client ends.
func (ls *Leases) Release(ctx context.Context, c *Caller, n *Named) (Answer, error) {
	l, held, moved, before := ls.drop(c, n)
	answer := Answer{ID: n.ID, Lock: n.Lock, State: Released}
	unlock := ls.unlock(ctx, held) // nothing, if it was only waited for; what is not confirmed is repeated in the background
	lost := errors.Is(unlock, fencelock.ErrLost)
	var err error
	found := false
	switch {
	case !ls.carries:
	case held != nil && !lost && moved:
		err = ls.breakRest(ctx, n.Lock, held.Token())
	case l == nil, lost, held == nil && (moved || n.Token != 0): // another server may hold it
		found, err = ls.releaseElsewhere(ctx, c, n)
	}
	switch {
	case lost && !found && moved && errors.Is(unlock, fencelock.LossForceUnlock):
		// Another server breaks what is left of a grant that the same client releases there (breakRest).
		answer.State, answer.Why = Lost, "the lease had ended: it was released at another server, or taken away by an operator"
	case lost && !found:
		answer.State, answer.Why = Lost, unlock.Error()
	case held != nil && !lost && n.Token != 0 && held.Token() != n.Token: // a later grant of the same id
		answer.State, answer.Why = Lost, errNotThere.Error()
	case before.unnamed && !found:
		answer.State, answer.Why = Lost, errUnnamed.Error()
	case l == nil && !before.had && !ls.carries:
		answer.State, answer.Why = Lost, errNotCarried.Error()+"; the lock is free when its TTL is over"
	}
	return answer, err
}

// drop takes a lease that the client releases out of its session, and returns it with what is to be unlocked, and whether other
// servers may hold it. If there is no lease, before is how it ended at this server.
func (ls *Leases) drop(c *Caller, n *Named) (l *lease, held *fencelock.Lease, moved bool, before ended) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	s := ls.sessions[c.Handle.key(c.User)]
	if l = s.lease(n); l != nil {
		s.dropLocked(l, Released, nil)
		return l, l.endLocked(), n.Moved || l.moved, ended{}
	}
	before = ended{had: s.gave(n.ID), unnamed: s.unnamed(n.ID)}
	if s != nil && !s.released(n.ID) && !before.unnamed {
		s.endedLocked(ended{id: n.ID}) // an acquisition may be on its way
	}
	return nil, nil, n.Moved, before
}

// breakRest ends the claims that other servers have on a grant that its client releases.
func (ls *Leases) breakRest(ctx context.Context, lock string, token fencelock.Token) error {
	if _, err := ls.client.ForceUnlock(ctx, lock, token); err != nil && !errors.Is(err, fencelock.ErrNotHeld) {
		return err
	}
	return nil
}

// releaseElsewhere gives back a lease that another server holds, and reports whether one does. A later grant of the same id is
// given back, too, and is not the lease that the client names. Only the client that has the handle can name the re-entry of the grant.
func (ls *Leases) releaseElsewhere(ctx context.Context, c *Caller, n *Named) (found bool, err error) {
	st, err := ls.client.Inspect(ctx, n.Lock)
	if err != nil {
		return false, err
	}
	reentry := c.Handle.reentry(c.User, n.Lock, n.ID)
	for _, h := range st.Holders {
		if h.Reentry == reentry && !h.Kept {
			return n.Token == 0 || h.Token == n.Token, ls.breakRest(ctx, n.Lock, h.Token)
		}
	}
	return false, nil
}

// End releases all leases of a session: those that this server has, and those that the
// client names. The session cannot be used at this server any more. A server that has no
// room for the session has no leases of it, and releases those that the client names.
func (ls *Leases) End(ctx context.Context, c *Caller, named []Named) ([]Answer, error) {
	ls.mu.Lock()
	if s, err := ls.sessionLocked(c); err == nil {
		s.over = true
		named = s.withKnownLocked(named)
	}
	ls.mu.Unlock()
	var err error
	answers := make([]Answer, 0, len(named))
	for i := range named {
		a, releaseErr := ls.Release(ctx, c, &named[i])
		err = errors.Join(err, releaseErr)
		answers = append(answers, a)
	}
	return answers, err
}

// withKnownLocked adds the leases of the session that its client does not name. ls.mu must be held.
func (s *session) withKnownLocked(named []Named) []Named {
	known := map[string]bool{}
	for _, n := range named {
		known[n.ID] = true
	}
	for id, l := range s.leases {
		if !known[id] {
			named = append(named, Named{ID: id, Lock: l.lock})
		}
	}
	return named
}
