// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock"
)

// Release gives a lease back, or ends the wait for it. Releasing again changes nothing. On a store that cannot carry leases it is lost
// unless this server has or had it: another server may hold it, and keeps the lock taken until the TTL of the client ends.
func (b *Book) Release(ctx context.Context, c *Caller, n *Named) (Answer, error) {
	l, held, moved, before := b.drop(c, n)
	answer := Answer{ID: n.ID, Lock: n.Lock, State: Released}
	unlock := b.unlock(ctx, held) // nothing, if it was only waited for; what is not confirmed is repeated in the background
	lost := errors.Is(unlock, fencelock.ErrLost)
	var err error
	found := false
	switch {
	case !b.carries:
	case held != nil && !lost && moved:
		err = b.breakRest(ctx, n.Lock, held.Token())
	case l == nil, lost, held == nil && (moved || n.Token != 0): // another server may hold it
		found, err = b.releaseElsewhere(ctx, c, n)
	}
	switch {
	case lost && !found && moved && errors.Is(unlock, fencelock.ErrBroken):
		// Another server breaks what is left of a grant that the same client releases there (breakRest).
		answer.State, answer.Why = Lost, "the lease had ended: it was released at another server, or broken by an operator"
	case lost && !found:
		answer.State, answer.Why = Lost, unlock.Error()
	case held != nil && !lost && n.Token != 0 && held.Token() != n.Token: // a later grant of the same id
		answer.State, answer.Why = Lost, errNotThere.Error()
	case before.unnamed && !found:
		answer.State, answer.Why = Lost, errUnnamed.Error()
	case l == nil && !before.had && !b.carries:
		answer.State, answer.Why = Lost, errNotCarried.Error()+"; the lock is free when its TTL is over"
	}
	return answer, err
}

// drop takes a lease that the client releases out of its session, and returns it with what is to be unlocked, and whether other
// servers may hold it. If there is no lease, before is how it ended at this server.
func (b *Book) drop(c *Caller, n *Named) (l *lease, held *fencelock.Lease, moved bool, before ended) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sessions[c.Handle.key(c.User)]
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
func (b *Book) breakRest(ctx context.Context, lock string, token fencelock.Token) error {
	if _, err := b.client.Break(ctx, lock, token); err != nil && !errors.Is(err, fencelock.ErrNotHeld) {
		return err
	}
	return nil
}

// releaseElsewhere gives back a lease that another server holds, and reports whether one does. A later grant of the same id is
// given back, too, and is not the lease that the client names. Only the client that has the handle can name the re-entry of the grant.
func (b *Book) releaseElsewhere(ctx context.Context, c *Caller, n *Named) (found bool, err error) {
	st, err := b.client.Inspect(ctx, n.Lock)
	if err != nil {
		return false, err
	}
	reentry := c.Handle.reentry(c.User, n.Lock, n.ID)
	for _, h := range st.Holders {
		if h.Reentry == reentry && !h.Kept {
			return n.Token == 0 || h.Token == n.Token, b.breakRest(ctx, n.Lock, h.Token)
		}
	}
	return false, nil
}

// End releases all leases of a session: those that this server has, and those that the
// client names. The session cannot be used at this server any more. A server that has no
// room for the session has no leases of it, and releases those that the client names.
func (b *Book) End(ctx context.Context, c *Caller, named []Named) ([]Answer, error) {
	b.mu.Lock()
	if s, err := b.sessionLocked(c); err == nil {
		s.over = true
		named = s.withKnownLocked(named)
	}
	b.mu.Unlock()
	var err error
	answers := make([]Answer, 0, len(named))
	for i := range named {
		a, releaseErr := b.Release(ctx, c, &named[i])
		err = errors.Join(err, releaseErr)
		answers = append(answers, a)
	}
	return answers, err
}

// withKnownLocked adds the leases of the session that its client does not name. b.mu must be held.
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
