// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock"
)

// Release gives a lease back, or ends the wait for it. Releasing again changes nothing.
func (b *Book) Release(ctx context.Context, c *Caller, n *Named) (Answer, error) {
	b.mu.Lock()
	s := b.sessions[c.Handle.key(c.User)]
	l := s.lease(n)
	var held *fencelock.Lease
	moved := n.Moved
	if l != nil {
		s.dropLocked(l, Released, nil)
		held, moved = l.endLocked(), moved || l.moved
	}
	b.mu.Unlock()
	answer := Answer{ID: n.ID, Lock: n.Lock, State: Released}
	if l == nil && !b.carries {
		answer.Why = errNotCarried.Error() + "; it ends with its TTL"
		return answer, nil
	}
	if l == nil {
		return answer, b.releaseElsewhere(ctx, c, n)
	}
	err := held.Unlock(ctx) // nothing, if it was only waited for
	if held != nil && moved && !errors.Is(err, fencelock.ErrLost) {
		err = errors.Join(err, b.breakRest(ctx, n.Lock, held.Token()))
	}
	switch {
	case errors.Is(err, fencelock.ErrLost):
		answer.State, answer.Why = Lost, err.Error()
	case errors.Is(err, fencelock.ErrUnavailable) && !errors.Is(err, fencelock.ErrReleased):
		return answer, err
	}
	return answer, nil
}

// breakRest ends the claims that other servers have on a grant that its client releases.
func (b *Book) breakRest(ctx context.Context, lock string, token fencelock.Token) error {
	if _, err := b.client.Break(ctx, lock, token); err != nil && !errors.Is(err, fencelock.ErrNotHeld) {
		return err
	}
	return nil
}

// releaseElsewhere gives back a lease that another server holds. Only the client that has the
// handle can name the re-entry of the grant.
func (b *Book) releaseElsewhere(ctx context.Context, c *Caller, n *Named) error {
	st, err := b.client.Inspect(ctx, n.Lock)
	if err != nil {
		return err
	}
	reentry := c.Handle.reentry(c.User, n.Lock, n.ID)
	for _, h := range st.Holders {
		if h.Reentry == reentry && !h.Kept {
			return b.breakRest(ctx, n.Lock, h.Token)
		}
	}
	return nil
}

// End releases all leases of a session: those that this server has, and those that the
// client names. The session cannot be used at this server any more.
func (b *Book) End(ctx context.Context, c *Caller, named []Named) ([]Answer, error) {
	b.mu.Lock()
	s, err := b.sessionLocked(c)
	if err != nil {
		b.mu.Unlock()
		return nil, err
	}
	s.over = true
	known := map[string]bool{}
	for _, n := range named {
		known[n.ID] = true
	}
	for id, l := range s.leases {
		if !known[id] {
			named = append(named, Named{ID: id, Lock: l.lock})
		}
	}
	b.mu.Unlock()
	answers := make([]Answer, 0, len(named))
	for i := range named {
		a, releaseErr := b.Release(ctx, c, &named[i])
		err = errors.Join(err, releaseErr)
		answers = append(answers, a)
	}
	return answers, err
}
