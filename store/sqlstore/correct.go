// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"

	"github.com/fencelock/fencelock/store/sqlstore/internal/book"
)

// correct takes ends back that are further ahead than they can be. The clock of the server
// was ahead when they were written, and was set back since: without this a process that
// dies then keeps its locks for as long as the clock was ahead. It returns true if the lock
// must be read again.
//
// An end is never set to less than a whole TTL from now, so a session that lives keeps all
// that its process trusts in.
func (s *Store) correct(ctx context.Context, l *loaded) (again bool, err error) {
	if l.graceLeapt() {
		n, err := s.changed(ctx, "correctGrace", int64(book.Leap))
		if err != nil {
			return false, err
		}
		again = n > 0
	}
	for id, session := range l.Sessions {
		if l.leapt(session) {
			n, err := s.changed(ctx, "correctSession", id, session.Generation)
			if err != nil {
				return false, err
			}
			again = again || n > 0
		}
	}
	return again, nil
}

// leapt reports whether the end of a session is further ahead than it can be.
func (l *loaded) leapt(session book.Session) bool {
	return session.Ends > l.Now+2*l.rules.maxTTL+book.Leap
}

// graceLeapt reports the same of the grace period.
func (l *loaded) graceLeapt() bool { return l.GraceEnd > l.Now+l.rules.maxTTL+book.Leap }
